"""Kinds of long work and the states of a run; a kind is declared once, by the feature whose work it is."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.locks import Lock


class RunState(StrEnum):
    """The state of a run. CANCELLING: a worker has still to let go of it."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (RunState.QUEUED, RunState.RUNNING, RunState.CANCELLING)


class KindName(StrEnum):
    """The names of the kinds, of 16 letters at most. Workers begin runs of REDELIVER and INGEST themselves; each of the
    others has a `RunKind` and is requested.
    """

    REDELIVER = "redeliver"
    INGEST = "ingest"
    DRY_RUN = "dry_run"
    REGROUP = "regroup"
    ARCHIVE = "archive"
    ERASE = "erase"
    SEARCH = "search"
    COMPARE = "compare"
    REPORT = "report"
    ALIKE_GROUPS = "alike_groups"
    BROKER_CHECK = "broker_check"


# Their results may quote messages: an erasure ends them.
QUOTING = (KindName.COMPARE, KindName.SEARCH, KindName.REPORT)
# Their errors repeat what only the person who requested the run may read; the jobs do not show them.
PRIVATE_ERRORS = (KindName.BROKER_CHECK,)


@dataclass(frozen=True)
class RunKind:
    """A kind of requested run.

    `noun` names one to people. `audited_as` and `audited_object`: the action (`comparison.{}`, of "requested" and
    "cancelled") and the type of object in the audit log. `cancelled_by`: the permission to cancel others' runs;
    None: nobody cancels a run.
    `max_open`: queued and running runs of one account; `max_kept`: all of its runs that are kept. `max_tries`: how many
    workers in a row may be lost in a turn before the run fails. `kept`: how long a run stays after its end; None: for
    ever. `waits`: a run that no worker has begun by then is removed. `is_personal`: a request reuses no run of another
    account. `resumes_after`: an error does not end the run, which goes on after this time. `slice_seconds`: the
    accounts take turns of this length; None: the oldest run goes first, until the end of the worker's turn. `shares`:
    the lock that a turn shares; the run waits while another session has it alone. `waits_for`: no turn begins while a
    run of these kinds is open. `alone_with`: kinds with the same text never have turns at once; "" is the kind's own
    name.
    """

    name: KindName
    noun: str
    audited_as: str
    audited_object: str
    first_phase: str
    cancelled_by: Permission | None
    max_open: int | None = None
    max_kept: int | None = None
    max_tries: int | None = 3
    kept: timedelta | None = None
    waits: timedelta | None = None
    is_personal: bool = False
    resumes_after: timedelta | None = None
    slice_seconds: float | None = None
    shares: Lock | None = None
    waits_for: tuple[KindName, ...] = ()
    alone_with: str = ""
