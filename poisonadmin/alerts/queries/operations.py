"""Conditions of operations, all of whose messages were on the addresses of a rule."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from typing import Any

from poisonadmin.alerts.domain import conditions as titles
from poisonadmin.alerts.domain.conditions import Condition
from poisonadmin.alerts.domain.kinds import AlertKind
from poisonadmin.alerts.queries.watched import Watched
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.core.queries.sql import Sql, raw
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.decisions.operations.queries.operations import ledger_of, recorded_results
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.store.models.operation import Operation

SECONDS_TO_READ = 3
REMEMBERED_LEDGERS = 1000


def halted(of: Watched) -> list[Condition]:
    """Return the operations that halted and are not over."""
    return [
        _condition(row, titles.operation_halted(row["id"], row["halted_why"]), row["state_at"])
        for row in _rows(of, raw("o.ended_at IS NULL AND o.state = 'halted'"))
    ]


def ended(of: Watched) -> list[Condition]:
    """Return the operations that ended within a day, and took longer than the limit."""
    is_long = Sql(
        """o.ended_at > now() - interval '1 day'
           AND o.ended_at - coalesce(o.sign_off_at, o.requested_at) > {limit}""",
        limit=of.limit,
    )
    found = []
    for row in _rows(of, is_long):
        outcomes = _outcomes(row["id"], row["ended_at"])
        title = titles.operation_ended(row["id"], _verb(row), row["count"], row["state"], outcomes)
        found.append(_condition(row, title, row["ended_at"], {"state": row["state"], "outcomes": outcomes}))
    return found


def sign_off_waits(of: Watched) -> list[Condition]:
    """Return the operations that wait for the sign-off of another person."""
    return [
        _condition(
            row,
            titles.sign_off_waits(row["id"], _verb(row), row["count"], row["requested_by"]),
            row["requested_at"],
            {"requested_by": row["requested_by"], "expires_at": row["sign_off_expires_at"].isoformat()},
        )
        for row in _rows(of, raw("o.ended_at IS NULL AND o.state = 'waiting_for_sign_off'"))
    ]


def sign_off_result(of: Watched) -> list[Condition]:
    """Return the operations whose sign-off was given or refused within a day, or that nobody signed off in time."""
    # One that is decided is so before it expires.
    is_decided = raw(
        """o.sign_off_expires_at > now() - interval '1 day' AND (o.sign_off_at > now() - interval '1 day'
           OR o.sign_off_decision IS NULL AND o.sign_off_expires_at <= now() AND o.state_at >= o.sign_off_expires_at
              AND o.state IN ('cancelling', 'cancelled'))"""
    )
    found = []
    for row in _rows(of, is_decided):
        decision, by = row["sign_off_decision"], row["sign_off_by"]
        is_consent = decision == SignOffDecision.CONSENT
        title = titles.sign_off_result(row["id"], _verb(row), row["count"], by, is_consent=is_consent)
        facts = {"decision": decision or "expired", "by": by, "requested_by": row["requested_by"]}
        found.append(_condition(row, title, row["sign_off_at"] or row["sign_off_expires_at"], facts))
    return found


def break_glass(of: Watched) -> list[Condition]:
    """Return the operations that an administrator began without their sign-off within a day."""
    return [
        _condition(
            row,
            titles.break_glass(row["id"], row["requested_by"], row["count"]),
            row["broke_glass_at"],
            {"requested_by": row["requested_by"]},
        )
        for row in _rows(of, raw("o.broke_glass_at > now() - interval '1 day'"))
    ]


OPERATION_CONDITIONS: Mapping[AlertKind, Callable[[Watched], list[Condition]]] = {
    AlertKind.OPERATION_HALTED: halted,
    AlertKind.OPERATION_ENDED: ended,
    AlertKind.SIGN_OFF_WAITS: sign_off_waits,
    AlertKind.SIGN_OFF_RESULT: sign_off_result,
    AlertKind.BREAK_GLASS: break_glass,
}
_COLUMNS = (
    *("id", "action", "count", "state", "state_at", "halted_why", "requested_by", "requested_at", "ended_at"),
    *("sign_off_decision", "sign_off_by", "sign_off_at", "sign_off_expires_at", "broke_glass_at"),
)


def _rows(of: Watched, where: Sql) -> list[dict[str, Any]]:
    rows = fetch_rows(
        Sql(
            """SELECT {columns} FROM operation o JOIN selection s ON s.id = o.selection_id
               WHERE {where} AND {on} ORDER BY o.id""",
            columns=raw(", ".join(f"o.{column}" for column in _COLUMNS)),
            where=where,
            on=of.holds_all,
        )
    )
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


def _condition(row: Mapping[str, Any], title: str, at: datetime, facts: Mapping[str, Any] | None = None) -> Condition:
    known = {"operation_id": str(row["id"]), "action": row["action"], "count": row["count"]}
    return Condition(str(row["id"]), at.isoformat(), title, f"/operations/{row['id']}/", {**known, **(facts or {})})


def _verb(row: Mapping[str, Any]) -> str:
    return ACTIONS[row["action"]].verb


@lru_cache(maxsize=REMEMBERED_LEDGERS)
def _outcomes(operation_id: int, ended_at: datetime) -> dict[str, int]:  # noqa: ARG001  (another one of this id)
    """Return how many members came to each outcome; they are counted once, and not with every check."""
    with bounded(SECONDS_TO_READ):
        ledger = ledger_of(Operation.objects.get(id=operation_id), recorded_results(operation_id))
    return {outcome: n for outcome, n in asdict(ledger).items() if n}
