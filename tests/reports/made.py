"""What reports are made of: messages, tries and decisions at times that a test chooses."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.domain.access import SYSTEM, Principal
from poisonadmin.reports.domain.asked import AskedReport, asked_report
from poisonadmin.reports.queries.rows import rows_at_once
from tests.fixtures.api import take

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def _run(sql: str, *values: Any) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        # History and attempts of the past are written as they would have been then; the log refuses changes.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(sql, values)
        cursor.execute("SET LOCAL session_replication_role = origin")


def message(address: str = "orders.eu", *, at: datetime = NOON, state: str = "NDLV", **fields: Any) -> int:
    """Store a dead letter (another state on request) that came in at a time, and failed then; return its id."""
    failure = {name: fields.pop(name) for name in ("exception_class", "exception_message") if name in fields}
    described = {"reason": "gave up", "exception_class": "TimeoutError", "exception_message": "no answer in 30 s"}
    more = {"dead_letter": described | failure} if state == "NDLV" else {}
    made = take(address, **fields, **more)
    _run("UPDATE envelope SET received_at = %s WHERE id = %s", at, made)
    _run(
        "UPDATE message SET failed_at = %s, state_at = %s, state = %s,"
        " reason = CASE WHEN %s IN ('NDLV', 'FAIL') THEN coalesce(reason, 'quarantined') END WHERE id = %s",
        *(at, at, state, state, made),
    )
    _run("DELETE FROM history WHERE message_id = %s", made)
    _run("UPDATE attempt SET finished_at = %s WHERE message_id = %s", at, made)
    return made


def attempt(message_id: int, number: int, outcome: str, *, at: datetime = NOON, **fields: Any) -> None:
    """Store a try that took a second and a half."""
    values = {
        "message_id": message_id,
        "attempt_number": number,
        "outcome": outcome,
        "started_at": at - timedelta(seconds=1.5),
        "finished_at": at,
    } | fields
    places = ", ".join(["%s"] * len(values))
    _run(f"INSERT INTO attempt ({', '.join(values)}) VALUES ({places})", *values.values())


def change(
    message_id: int, event: str, to_state: str, *, at: datetime, before: str | None = "NDLV", **fields: Any
) -> None:
    """Store a change of state."""
    values = {
        "message_id": message_id,
        "from_state": before,
        "to_state": to_state,
        "event": event,
        "attempt_number": 0,
        "actor": "alice",
        "at": at,
    } | fields
    places = ", ".join(["%s"] * len(values))
    _run(f"INSERT INTO history ({', '.join(values)}) VALUES ({places})", *values.values())


def rows_of(kind: str, *, principal: Principal = SYSTEM, **wishes: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a report that is read at once."""
    asked: AskedReport = asked_report(kind, **wishes)
    found = rows_at_once(asked, principal=principal)
    assert found.is_whole
    return found.rows
