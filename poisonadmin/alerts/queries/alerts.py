"""Alerts and their deliveries, newest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from poisonadmin.alerts.queries.rules import rules_in_scope
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import fetch_by_id
from poisonadmin.core.queries.sql import all_given

_KEY = Key(("a.id",), (int,))


class AlertState(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"


@dataclass(frozen=True)
class AlertRow:
    """Something that a rule reports. `delivery_id`: what it is sent with; others may be sent with the same.

    `answer`: the latest answer of the receiver, or why there was none. `next_try_at`: null when no try is to come.
    `resolution_id`, `resolution`: the delivery that says that it is over and its state, null where none does.
    """

    id: int
    rule_id: int
    rule: str
    kind: str
    title: str
    path: str
    facts: Mapping[str, Any]
    opened_at: datetime
    resolved_at: datetime | None
    delivery_id: int
    delivery: str
    is_held: bool
    tries: int
    next_try_at: datetime | None
    answer: str | None
    resolution_id: int | None
    resolution: str | None


@dataclass(frozen=True)
class AlertTry:
    """One try of a delivery."""

    at: datetime
    is_taken: bool
    text: str


@dataclass(frozen=True)
class AlertDeliveryRow:
    """Some alerts of a rule, sent together, with the answer to each try. `alerts`: how many.

    `is_resolution`: it says that they are over.
    """

    id: int
    rule_id: int
    rule: str
    state: str
    is_held: bool
    is_test: bool
    is_resolution: bool
    webhook_id: str
    tries: int
    planned_at: datetime
    next_try_at: datetime | None
    alerts: int
    log: Sequence[Mapping[str, Any]]

    @property
    def answers(self) -> list[AlertTry]:
        """The answers, oldest first."""
        return [AlertTry(datetime.fromisoformat(one["at"]), one["is_taken"], one["text"]) for one in self.log]


_ALERTS = """SELECT a.id, a.rule_id, r.name AS rule, a.kind, a.title, a.path, a.facts, a.opened_at, a.resolved_at,
 a.delivery_id, d.state AS delivery, d.is_held AND d.body IS NULL AS is_held, d.tries,
 CASE WHEN d.state = 'waiting' THEN d.due_at END AS next_try_at, d.log -> -1 ->> 'text' AS answer,
 a.resolution_id, o.state AS resolution
 FROM alert a JOIN alert_rule r ON r.id = a.rule_id JOIN alert_delivery d ON d.id = a.delivery_id
 LEFT JOIN alert_delivery o ON o.id = a.resolution_id
 WHERE a.rule_id = ANY(%s)"""
_DELIVERY = """SELECT d.id, d.rule_id, r.name AS rule, d.state, d.is_held AND d.body IS NULL AS is_held, d.is_test,
 d.is_resolution, d.webhook_id, d.tries, d.planned_at,
 CASE WHEN d.state = 'waiting' THEN d.due_at END AS next_try_at, d.log,
 CASE WHEN d.is_resolution THEN (SELECT count(*) FROM alert a WHERE a.resolution_id = d.id)
      ELSE (SELECT count(*) FROM alert a WHERE a.delivery_id = d.id) END AS alerts
 FROM alert_delivery d JOIN alert_rule r ON r.id = d.rule_id WHERE d.id = %s"""


def list_alerts(
    *,
    principal: Principal,
    rule_id: int | None = None,
    state: str | None = None,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Page[AlertRow]:
    """Return one page of the alerts of rules in scope, newest first."""
    principal.require(Permission.READ)
    more, parameters = all_given({"a.rule_id = {value}": rule_id})
    if state is not None:
        more += f" AND a.resolved_at IS {'NULL' if state == AlertState.OPEN else 'NOT NULL'}"
    sql = f"{_ALERTS} AND {more}"
    return fetch_page(AlertRow, sql, [rules_in_scope(principal), *parameters], window(cursor, limit, _KEY))


def get_alert_delivery(delivery_id: int, *, principal: Principal) -> AlertDeliveryRow:
    """Return the delivery; raise NotFound, also out of scope."""
    principal.require(Permission.READ)
    found = fetch_by_id(AlertDeliveryRow, _DELIVERY, delivery_id)
    if found is None or found.rule_id not in rules_in_scope(principal):
        raise NotFound(f"There is no alert delivery {delivery_id}.")
    return found
