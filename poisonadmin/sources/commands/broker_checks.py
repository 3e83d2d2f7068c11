"""Broker checks: requested through the API or a page, made by a worker; nothing is taken.

The web process connects to no broker and reads no stored login: a check is a run, and a tick of the io workers makes it
(decision 28).
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

import structlog

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.brokers.domain.brokers import InvalidSource, may_keep_login
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.commands.requests import remove_expired_runs, request_run
from poisonadmin.runs.domain.kinds import KindName, RunKind
from poisonadmin.sources.commands.setup import checked_config, checked_login
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose, BrokerCheckResult, shown
from poisonadmin.sources.queries import get_source
from poisonadmin.store.models.intake import Source

BrokerChecker = Callable[[str, str, Mapping[str, Any], Mapping[str, str]], BrokerCheckResult]
"""(purpose, kind, configuration, login) -> the result. Passed in: the workers, which check, import this package."""

CHECK_SECONDS = 25.0
# In between the heartbeat of the run moves.
_WAIT_SECONDS = 1.0
# `params`: `purpose`; `kind` and `config` of a source; `source_id`, null where it is not saved. A login that came with
# the request is among the secrets; without one the source's own is used. `result`: a `BrokerCheckResult`. A check that
# ended its worker is not made again.
BROKER_CHECK = RunKind(
    KindName.BROKER_CHECK,
    noun="broker check",
    audited_as="broker.check_{}",
    audited_object="source",
    first_phase="checking the broker",
    cancelled_by=None,
    max_open=20,
    max_tries=1,
    kept=timedelta(minutes=15),
    waits=timedelta(minutes=15),
)
log = structlog.get_logger(__name__)


def request_source_check(source_id: int, purpose: BrokerCheckPurpose, *, principal: Principal) -> int:
    """Request a check of the broker of a saved source, with its login; return the check's id.

    Errors: `NotAllowed`, `NotFound`, `InvalidSource` (a directory), `TooManyRuns`.
    """
    principal.require(Permission.INGEST)
    source = get_source(source_id, principal=principal)
    if not source.is_broker:
        raise InvalidSource("kind", "a directory is no broker; its files are listed")
    _require_possible(purpose, source.kind, principal)
    return _request(purpose, source.kind, dict(source.config), {}, source_id, principal)


def request_broker_check(
    kind: str,
    config: Mapping[str, Any],
    purpose: BrokerCheckPurpose,
    *,
    principal: Principal,
    secrets: Mapping[str, Any] | None = None,
    source_id: int | None = None,
) -> int:
    """Request a check of a broker as it would be configured; return the check's id.

    `secrets` None: those of the source, where there is one and the configuration goes to the same place.
    Errors: `NotAllowed`, `NotFound`, `InvalidSource`, `TooManyRuns`.
    """
    principal.require(Permission.CONFIGURE)
    if not principal.sees_everything:
        raise NotAllowed("A source is for every address; this account is limited to some.")
    if kind not in BROKERS:
        raise InvalidSource("kind", f"must be one of {', '.join(BROKERS)}")
    _require_possible(purpose, kind, principal)
    checked = checked_config(kind, config, name="preview", needs_queues=purpose is not BrokerCheckPurpose.QUEUES)
    login = checked_login(kind, secrets or {})
    of_source = None
    if secrets is None and source_id is not None:
        source = get_source(source_id, principal=principal)
        if source.secret_names and (source.kind != kind or not may_keep_login(source.config, checked)):
            raise InvalidSource("secrets", "must be given again: the stored ones are not sent to another place")
        of_source = source_id
    return _request(purpose, kind, checked, login, of_source, principal)


def _require_possible(purpose: BrokerCheckPurpose, kind: str, principal: Principal) -> None:
    if purpose.shows_messages:
        principal.require(Permission.READ_PAYLOAD)
    if purpose is BrokerCheckPurpose.GROUPS and not BROKERS[kind].can_be_observed:
        raise InvalidSource("purpose", f"{BROKERS[kind].words} cannot be observed. {BROKERS[kind].preview_note}")


def _request(
    purpose: BrokerCheckPurpose,
    kind: str,
    config: dict[str, Any],
    login: dict[str, str],
    source_id: int | None,
    principal: Principal,
) -> int:
    # Those that no worker has begun still hold the login that they came with.
    remove_expired_runs()
    run = request_run(
        BROKER_CHECK,
        {"purpose": str(purpose), "kind": kind, "config": config, "source_id": source_id},
        principal=principal,
        secrets=login,
        account="",
        object_id=str(source_id or ""),
        details={"for": purpose, "config": config},
    )
    return run.id


def work(check: BrokerChecker, *, seconds: float = CHECK_SECONDS) -> RunWork:
    """Return the work of broker checks; a check that takes longer than `seconds` is given up."""
    return RunWork(BROKER_CHECK, partial(_carry_out, check, seconds))


def _carry_out(check: BrokerChecker, seconds: float, turn: RunTurn) -> None:
    params = turn.run.params
    login = turn.take_secrets()
    if not login and params["source_id"] is not None:
        logins = Source.objects.filter(id=params["source_id"]).values_list("secrets", flat=True)
        if not logins:
            raise PoisonAdminError("The source was deleted meanwhile.")
        login = logins[0]
    outcome: queue.SimpleQueue[BrokerCheckResult | PoisonAdminError] = queue.SimpleQueue()
    arguments = (outcome, check, params["purpose"], params["kind"], params["config"], login)
    # A client library that hangs may not keep this worker from its other work; the thread ends with the process.
    threading.Thread(target=_check, args=arguments, name="broker-check", daemon=True).start()
    found = _within(seconds, outcome, turn)
    if isinstance(found, PoisonAdminError):
        raise found
    turn.finish(asdict(found))


def _within(
    seconds: float, outcome: "queue.SimpleQueue[BrokerCheckResult | PoisonAdminError]", turn: RunTurn
) -> BrokerCheckResult | PoisonAdminError:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            return outcome.get(timeout=min(left, _WAIT_SECONDS))
        except queue.Empty:
            turn.report()
    return PoisonAdminError(f"The broker did not answer within {seconds:.0f} s.")


def _check(
    outcome: "queue.SimpleQueue[BrokerCheckResult | PoisonAdminError]",
    check: BrokerChecker,
    purpose: str,
    kind: str,
    config: Mapping[str, Any],
    login: Mapping[str, str],
) -> None:
    try:
        outcome.put(check(purpose, kind, config, login))
    except PoisonAdminError as error:
        outcome.put(PoisonAdminError(shown(error.detail) or ""))
    except Exception as error:
        # What an adapter did not foresee; its text may repeat the login, so only the log of the worker has it.
        log.exception("a broker check failed", kind=kind, purpose=purpose)
        outcome.put(PoisonAdminError(f"{type(error).__name__}; the log of the io worker has the rest."))
