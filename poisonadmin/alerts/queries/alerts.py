"""Alert rules, and alerts with their deliveries, newest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from poisonadmin.alerts.domain.rules import AlertRuleFields, belongs_to_addresses
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.masking import MARK, Masks
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_by_id, fetch_rows
from poisonadmin.core.queries.sql import Sql, all_given, raw


@dataclass(frozen=True, kw_only=True)
class AlertRuleRow(AlertRuleFields, Versioned):
    """An alert rule: conditions to report, and their receiver. `limits`: minutes by kind. `growth`: of a group within
    its limit. `search`: narrows it to messages. `quiet_from`, `quiet_until`: times of day in `time_zone`.

    `send_resolved`: it sends the end of alerts too. `failing_since`: since when its deliveries fail, null while they do
    not. `open`: how many of its alerts are open.
    """

    id: int
    failing_since: datetime | None
    open: int
    owner: str
    version: int
    updated_at: datetime


_RULES = Sql(
    """SELECT r.id, {fields}, r.failing_since, r.owner, r.version, r.updated_at,
        (SELECT count(*) FROM alert a WHERE a.rule_id = r.id AND a.resolved_at IS NULL) AS open FROM alert_rule r""",
    fields=columns(AlertRuleFields, "r"),
)


def sees_rule(principal: Principal, kinds: Sequence[str], addresses: Sequence[str]) -> bool:
    """Return whether a rule of these kinds and patterns is in the principal's scope."""
    if principal.sees_everything:
        return True
    return belongs_to_addresses(kinds) and all(principal.covers(pattern) for pattern in addresses)


def rules_in_scope(principal: Principal) -> list[int]:
    """Return the ids of the rules in scope."""
    rows = fetch_rows("SELECT id, kinds, addresses FROM alert_rule ORDER BY id")
    return [rule_id for rule_id, kinds, addresses in rows if sees_rule(principal, kinds, addresses)]


def list_alert_rules(*, principal: Principal) -> list[AlertRuleRow]:
    """Return the rules in scope, by name."""
    principal.require(Permission.READ)
    rows = fetch(AlertRuleRow, _RULES + Sql("ORDER BY r.name"))
    return [row for row in rows if sees_rule(principal, row.kinds, row.addresses)]


def get_alert_rule(rule_id: int, *, principal: Principal) -> AlertRuleRow:
    """Return the rule; raise NotFound, also out of scope."""
    principal.require(Permission.READ)
    found = fetch_by_id(AlertRuleRow, f"{_RULES} WHERE r.id = %s", rule_id)
    if found is None or not sees_rule(principal, found.kinds, found.addresses):
        raise NotFound(f"There is no alert rule {rule_id}.")
    return found


def failing_rules(principal: Principal) -> int:
    """Return how many rules in scope are switched on and have deliveries that fail."""
    rows = fetch_rows("SELECT kinds, addresses FROM alert_rule WHERE failing_since IS NOT NULL AND is_enabled")
    return sum(sees_rule(principal, kinds, addresses) for kinds, addresses in rows)


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
    found = raw(f"{_ALERTS} AND {more}", [rules_in_scope(principal), *parameters])
    page = fetch_page(AlertRow, found, window(cursor, limit, _KEY))
    masks = masks_of(principal)
    return replace(page, results=[_shown(row, masks) for row in page.results]) if masks else page


def _shown(row: AlertRow, masks: Masks) -> AlertRow:
    """Return the alert with the title of its failure group as the reader may see it; rules may be newer than it."""
    before, colon, group = row.title.partition(": ")
    if MARK.fullmatch(group):
        return row
    return replace(row, title=f"{before}{colon}{masks.title(int(row.facts.get('group_id', 0)), group)}")


def get_alert_delivery(delivery_id: int, *, principal: Principal) -> AlertDeliveryRow:
    """Return the delivery; raise NotFound, also out of scope."""
    principal.require(Permission.READ)
    found = fetch_by_id(AlertDeliveryRow, _DELIVERY, delivery_id)
    if found is None or found.rule_id not in rules_in_scope(principal):
        raise NotFound(f"There is no alert delivery {delivery_id}.")
    return found
