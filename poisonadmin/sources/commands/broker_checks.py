"""Looks at a broker: a person asks through the API or a page, a worker answers, and nothing is taken.

The web process connects to no broker and reads no stored login: a question is a row, and a tick of the io workers
answers it (decision 28).
"""

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.brokers.domain.brokers import InvalidSource, may_keep_login
from poisonadmin.core.commands import audit
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.sources.commands.setup import checked_config, checked_login
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, shown
from poisonadmin.sources.queries.sources import get_source
from poisonadmin.store.models.intake import BrokerCheck, BrokerCheckPurpose, Source

BrokerChecker = Callable[[str, str, Mapping[str, Any], Mapping[str, str]], BrokerCheckResult]
"""(purpose, kind, configuration, login) -> the result. Passed in: the workers, which check, import this package."""

CHECK_SECONDS = 25.0
MOST_WAITING = 20
_OLD = "DELETE FROM broker_check WHERE asked_at < now() - interval '15 minutes'"
_TAKE = """
UPDATE broker_check SET taken_at = now()
WHERE id = (SELECT min(id) FROM broker_check WHERE taken_at IS NULL) AND taken_at IS NULL
RETURNING id
"""
log = structlog.get_logger(__name__)


class TooManyBrokerChecks(PoisonAdminError):
    """Raised when too many broker checks wait for a worker already."""

    code = "too_many_broker_checks"
    status = 429


def request_source_check(source_id: int, purpose: BrokerCheckPurpose, *, principal: Principal) -> int:
    """Ask for a check of the broker of a saved source, with its login; return the check's id.

    Errors: `NotAllowed`, `NotFound`, `InvalidSource` (a directory), `TooManyBrokerChecks`.
    """
    principal.require(Permission.INGEST)
    if purpose is BrokerCheckPurpose.PREVIEW:
        principal.require(Permission.READ_PAYLOAD)
    source = get_source(source_id, principal=principal)
    if not source.is_broker:
        raise InvalidSource("kind", "a directory is no broker; its files are listed")
    return _ask(purpose, source.kind, dict(source.config), {}, source_id, principal)


def request_broker_check(
    kind: str,
    config: Mapping[str, Any],
    purpose: BrokerCheckPurpose,
    *,
    principal: Principal,
    secrets: Mapping[str, Any] | None = None,
    source_id: int | None = None,
) -> int:
    """Ask for a check of a broker as it would be configured; return the check's id.

    `secrets` None: those of the source, where there is one and the configuration goes to the same place.
    Errors: `NotAllowed`, `NotFound`, `InvalidSource`, `TooManyBrokerChecks`.
    """
    principal.require(Permission.CONFIGURE)
    if purpose is BrokerCheckPurpose.PREVIEW:
        principal.require(Permission.READ_PAYLOAD)
    if not principal.sees_everything:
        raise NotAllowed("A source is for every address; this account is limited to some.")
    if kind not in BROKERS:
        raise InvalidSource("kind", f"must be one of {', '.join(BROKERS)}")
    checked = checked_config(kind, config, name="preview", needs_queues=purpose is not BrokerCheckPurpose.QUEUES)
    login = checked_login(kind, secrets or {})
    of_source = None
    if secrets is None and source_id is not None:
        source = get_source(source_id, principal=principal)
        if source.secret_names and (source.kind != kind or not may_keep_login(source.config, checked)):
            raise InvalidSource("secrets", "must be given again: the stored ones are not sent to another place")
        of_source = source_id
    return _ask(purpose, kind, checked, login, of_source, principal)


def _ask(
    purpose: BrokerCheckPurpose,
    kind: str,
    config: dict[str, Any],
    login: dict[str, str],
    source_id: int | None,
    principal: Principal,
) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_OLD)
        if BrokerCheck.objects.filter(taken_at__isnull=True).count() >= MOST_WAITING:
            raise TooManyBrokerChecks("Too many broker checks wait for a worker. Try again in a moment.")
        row = BrokerCheck.objects.create(
            purpose=str(purpose), kind=kind, config=config, secrets=login, source_id=source_id, asked_by=principal.name
        )
        audit.record(
            principal.name,
            "broker.looked_at",
            "source",
            str(source_id or ""),
            details={"for": purpose, "config": config},
        )
    return row.id


def answer_due(check: BrokerChecker, *, seconds: float = CHECK_SECONDS) -> int:
    """Make the requested checks, one after the other; return how many. One that takes too long is given up.

    A check is taken before it is made, so one that kills its worker is not made again.
    """
    answered = 0
    while (row := _take()) is not None:
        answer, error = _within(seconds, check, row)
        stored = None if answer is None else asdict(answer)
        BrokerCheck.objects.filter(id=row.id).update(answer=stored, error=error, answered_at=Now(), secrets={})
        answered += 1
    return answered


def _take() -> BrokerCheck | None:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE)
        found = cursor.fetchone()
    return None if found is None else BrokerCheck.objects.get(id=found[0])


def _within(seconds: float, check: BrokerChecker, row: BrokerCheck) -> tuple[BrokerCheckResult | None, str | None]:
    login = row.secrets
    if not login and row.source_id is not None:
        login = Source.objects.values_list("secrets", flat=True).filter(id=row.source_id).first() or {}
    outcome: queue.SimpleQueue[tuple[BrokerCheckResult | None, str | None]] = queue.SimpleQueue()
    arguments = (outcome, check, row.purpose, row.kind, row.config, login)
    # A client library that hangs may not keep this worker from its other work; the thread ends with the process.
    threading.Thread(target=_checked, args=arguments, name="broker-check", daemon=True).start()
    try:
        return outcome.get(timeout=seconds)
    except queue.Empty:
        return None, f"The broker did not answer within {seconds:.0f} s."


def _checked(
    outcome: "queue.SimpleQueue[tuple[BrokerCheckResult | None, str | None]]",
    check: BrokerChecker,
    purpose: str,
    kind: str,
    config: Mapping[str, Any],
    login: Mapping[str, str],
) -> None:
    try:
        outcome.put((check(purpose, kind, config, login), None))
    except PoisonAdminError as error:
        outcome.put((None, shown(error.detail)))
    except Exception as error:
        # What an adapter did not foresee; its text may repeat the login, so only the log of the worker has it.
        log.exception("a broker check failed", kind=kind, purpose=purpose)
        outcome.put((None, f"{type(error).__name__}; the log of the io worker has the rest."))
