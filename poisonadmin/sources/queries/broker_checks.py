"""Broker checks, each for the account that asked for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.queries.rows import fetch_one
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundMessage, FoundQueue, answer_from

# After this long nobody will answer: no io worker runs, or it was killed meanwhile.
PATIENCE_SECONDS = 60


class BrokerCheckState(StrEnum):
    WAITING = "waiting"
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True)
class BrokerCheckRow:
    """A broker check: its request and, `answered` or `failed`, its result.

    `depth`: messages waiting in all that would be drained, null where nobody can say. A check takes nothing.
    """

    id: int
    purpose: str
    kind: str
    source_id: int | None
    state: str
    error: str | None
    depth: int | None
    queues: list[FoundQueue]
    messages: list[FoundMessage]
    asked_at: datetime
    answered_at: datetime | None


@dataclass(frozen=True)
class _StoredCheck:
    id: int
    purpose: str
    kind: str
    source_id: int | None
    asked_at: datetime
    answered_at: datetime | None
    answer: Mapping[str, Any] | None
    error: str | None
    is_overdue: bool


def get_broker_check(check_id: int, *, principal: Principal) -> BrokerCheckRow:
    """Return the check that this principal asked for; raise NotFound."""
    principal.require(Permission.READ)
    found = None
    if principal.sees_everything and 0 < check_id <= MAX_ID:
        found = fetch_one(
            _StoredCheck,
            "SELECT id, purpose, kind, source_id, asked_at, answered_at, answer, error,"
            " answered_at IS NULL AND asked_at < now() - make_interval(secs => %s) AS is_overdue"
            " FROM broker_check WHERE id = %s AND asked_by = %s",
            [PATIENCE_SECONDS, check_id, principal.name],
        )
    if found is None:
        raise NotFound(f"There is no broker check {check_id}. Results are kept for 15 minutes.")
    return _row(found, answer_from(found.answer))


def _row(found: _StoredCheck, answer: BrokerCheckResult) -> BrokerCheckRow:
    error = "No worker has answered; is an io worker running?" if found.is_overdue else found.error
    waits = found.answered_at is None and not found.is_overdue
    state = BrokerCheckState.WAITING if waits else BrokerCheckState.FAILED if error else BrokerCheckState.ANSWERED
    return BrokerCheckRow(
        found.id,
        found.purpose,
        found.kind,
        found.source_id,
        str(state),
        error,
        answer.depth,
        answer.queues,
        answer.messages,
        found.asked_at,
        found.answered_at,
    )
