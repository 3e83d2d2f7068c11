"""Sources, their files and the lines that were set aside; broker checks, each for the account that requested it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Coalesce

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.domain.masking import Masks
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import (
    StoredBytes,
    Versioned,
    columns,
    database_time,
    fetch,
    fetch_by_id,
    known,
    stored_bytes,
)
from poisonadmin.core.queries.sql import Sql, raw
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.runs import RunFields, StoredRun, find_run
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose, BrokerCheckResult, FoundMessage, result_from
from poisonadmin.store.models.attempt import FailureGroup

_SOURCES = Key(("s.id",), (int,), descending=False)
_REJECTED = Key(("r.id",), (int,))
SHOWN_BYTES = 2048
# As the audit log calls what was set aside.
REJECTED_LINE = "rejected_line"
_SELECT = """SELECT s.id, s.name, s.kind, s.config,
 ARRAY(SELECT jsonb_object_keys(s.secrets) ORDER BY 1) AS secret_names, s.is_enabled, s.lag, s.checked_at, s.failures,
 s.next_check_at, s.last_success_at, s.last_error, s.last_error_at, s.created_at, s.version, f.files,
 s.accepted + f.accepted AS accepted, s.duplicates + f.duplicates AS duplicates, s.rejected + f.rejected AS rejected,
 s.returned FROM source s CROSS JOIN LATERAL (
 SELECT count(*) AS files, coalesce(sum(accepted), 0)::bigint AS accepted,
 coalesce(sum(duplicates), 0)::bigint AS duplicates, coalesce(sum(rejected), 0)::bigint AS rejected
 FROM source_file WHERE source_id = s.id) f"""


@dataclass(frozen=True)
class SourceRow(Versioned):
    """A source: a directory, or queues of a broker, of whose `secret_names` only the names are shown.

    `accepted`, `duplicates`, `rejected` count since it was made; `returned` are messages that were delivered to the
    broker and came back. `lag`: how many waited at `checked_at`, null where nobody can say. After `failures` in a row
    the next check is at `next_check_at`.
    """

    id: int
    name: str
    kind: str
    config: Mapping[str, Any]
    secret_names: list[str]
    is_enabled: bool
    lag: int | None
    checked_at: datetime | None
    failures: int
    next_check_at: datetime | None
    last_success_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    created_at: datetime
    version: int
    files: int
    accepted: int
    duplicates: int
    rejected: int
    returned: int

    @property
    def is_broker(self) -> bool:
        """True when it drains queues, not files."""
        return self.kind in BROKERS

    @property
    def is_in_trouble(self) -> bool:
        """True when the last check failed; `last_error` gives the reason."""
        if self.is_broker:
            return self.failures > 0
        is_over = self.last_success_at and self.last_error_at and self.last_success_at > self.last_error_at
        return self.last_error is not None and not is_over

    @property
    def trouble_since(self) -> datetime | None:
        """When it was last read without an error; None where it is not in trouble."""
        return (self.last_success_at or self.created_at) if self.is_in_trouble else None

    @property
    def drained(self) -> list[str]:
        """The queues, topics or directory that it takes messages from."""
        if broker := BROKERS.get(self.kind):
            return list(self.config.get(broker.drained, []))
        return [self.config.get("path", "")]


@dataclass(frozen=True)
class FileRow:
    """One file and what became of its lines."""

    id: int
    path: str
    size_bytes: int
    state: str
    job_id: int | None
    accepted: int
    duplicates: int
    rejected: int
    error: str | None
    seen_at: datetime
    taken_at: datetime | None


@dataclass(frozen=True)
class RejectedRow:
    """A line that was set aside: its number, why, and its first bytes. `path` None: it came through the batch API."""

    id: int
    batch: str
    path: str | None
    line: int
    code: str
    detail: str
    raw_start: bytes
    raw_bytes: int
    at: datetime

    @property
    def raw_text(self) -> str:
        """The first bytes as far as they can be read."""
        return bytes(self.raw_start).decode("utf-8", "replace")


def list_sources(*, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT) -> Page[SourceRow]:
    """Return one page, oldest first."""
    principal.require(Permission.READ)
    page = window(cursor, limit, _SOURCES)
    if not principal.sees_everything:
        return Page([], None, None)
    return fetch_page(SourceRow, Sql("{rows} WHERE TRUE", rows=raw(_SELECT)), page)


def switched_on_sources() -> list[SourceRow]:
    """Return every source that is switched on, by name."""
    return fetch(SourceRow, f"{_SELECT} WHERE s.is_enabled ORDER BY s.name")


def get_source(source_id: int, *, principal: Principal) -> SourceRow:
    """Return the source; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(SourceRow, f"{_SELECT} WHERE s.id = %s", source_id) if principal.sees_everything else None
    return known(found, f"source {source_id}")


def list_files(
    source_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[FileRow]:
    """Return one page of the source's files, newest first."""
    get_source(source_id, principal=principal)
    files = Sql(
        "SELECT {columns} FROM source_file f WHERE source_id = {source}",
        columns=columns(FileRow, "f"),
        source=source_id,
    )
    return fetch_page(FileRow, files, page=window(cursor, limit, NEWEST_FIRST))


def list_rejected(
    source_id: int | None, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[RejectedRow]:
    """Return one page of what was set aside, newest first; of the batch API where `source_id` is None."""
    principal.require(Permission.READ_PAYLOAD)
    if source_id is not None:
        get_source(source_id, principal=principal)
    page = window(cursor, limit, _REJECTED)
    if not principal.sees_everything:
        return Page([], None, None)
    lines = Sql(
        """SELECT r.id, r.batch, f.path, r.line, r.code, r.detail, substring(r.raw FOR {shown}) AS raw_start,
        length(r.raw) AS raw_bytes, r.at FROM rejected_line r LEFT JOIN source_file f ON f.id = r.source_file_id
        WHERE {of}""",
        shown=SHOWN_BYTES,
        of=Sql("r.source_id IS NULL") if source_id is None else Sql("r.source_id = {id}", id=source_id),
    )
    found = fetch_page(RejectedRow, lines, page=page)
    # Nobody knows at which addresses they would have been.
    masks = masks_of(principal)
    return replace(found, results=[masks.row(row) for row in found.results])


def rejected_raw(rejected_id: int, *, principal: Principal) -> StoredBytes:
    """Return all the bytes of a line that was set aside, to be read slice by slice; raise NotFound."""
    principal.require(Permission.READ_PAYLOAD)
    found = None
    if principal.sees_everything and 0 < rejected_id <= MAX_ID:
        found = stored_bytes("rejected_line", "raw", rejected_id)
    line = known(found, f"rejected line {rejected_id}")
    if not (masks := masks_of(principal)):
        return line
    whole = (masks.text(b"".join(line.slices).decode("latin-1")) or "").encode("latin-1")
    return StoredBytes(len(whole), iter([whole]))


# A check that waits longer is shown as failed: no io worker runs.
PATIENCE = timedelta(seconds=60)
_OVERDUE = {"state": str(RunState.FAILED), "error": "No worker has answered; is an io worker running?"}


@dataclass(frozen=True)
class BrokerCheckRow(RunFields):
    """A broker check of a broker of this kind; `result` is null until it has succeeded."""

    purpose: str
    kind: str
    source_id: int | None
    result: BrokerCheckResult | None

    @property
    def is_waiting(self) -> bool:
        """True while a result may come."""
        return self.state in (RunState.QUEUED, RunState.RUNNING)


def get_broker_check(check_id: int, *, principal: Principal) -> BrokerCheckRow:
    """Return the check that this principal requested; raise NotFound."""
    principal.require(Permission.READ)
    run = find_run(KindName.BROKER_CHECK, check_id) if principal.sees_everything else None
    if run is None or run.requested_by != principal.name:
        raise NotFound(f"There is no broker check {check_id}. Results are kept for 15 minutes.")
    if BrokerCheckPurpose(run.params["purpose"]).shows_messages:
        principal.require(Permission.READ_PAYLOAD)
    return BrokerCheckRow(
        **run.shown | (_OVERDUE if _is_overdue(run) else {}),
        purpose=run.params["purpose"],
        kind=run.params["kind"],
        source_id=run.params["source_id"],
        result=None if run.result is None else _masked(result_from(run.result), masks_of(principal)),
    )


def _masked(result: BrokerCheckResult, masks: Masks) -> BrokerCheckResult:
    """Return the result with its messages masked by every rule: nobody knows at which addresses they will be.

    Its groups are those of messages that are here too, where there are any.
    """
    known = dict(
        FailureGroup.objects.filter(fingerprint__in=[one.fingerprint for one in result.groups]).values_list(
            "fingerprint", Coalesce("merged_into_id", "id")
        )
    )
    groups = [
        replace(
            one,
            title=masks.text(one.title) or "",
            sample=_message_masked(one.sample, masks),
            group_id=known.get(one.fingerprint),
        )
        for one in result.groups
    ]
    return replace(result, messages=[_message_masked(one, masks) for one in result.messages], groups=groups)


def _message_masked(message: FoundMessage, masks: Masks) -> FoundMessage:
    return replace(
        message,
        payload_text=masks.body(message.payload_text.encode()).decode(),
        headers={name: masks.header(name, text) for name, text in message.headers.items()},
        exception_message=masks.text(message.exception_message),
    )


def _is_overdue(run: StoredRun) -> bool:
    return run.ended_at is None and (run.started_at or run.created_at) + PATIENCE < database_time()
