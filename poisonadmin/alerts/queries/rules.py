"""Alert rules. A rule is in scope of who sees every address of its patterns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.alerts.domain.rules import AlertRuleFields, belongs_to_addresses
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_by_id, fetch_rows


@dataclass(frozen=True, kw_only=True)
class AlertRuleRow(AlertRuleFields, Versioned):
    """An alert rule: conditions to report, and their receiver. `limits`: minutes by kind. `search`: narrows it to
    messages. `quiet_from`, `quiet_until`: times of day in `time_zone`.

    `send_resolved`: it sends the end of alerts too. `failing_since`: since when its deliveries fail, null while they do
    not. `open`: how many of its alerts are open.
    """

    id: int
    failing_since: datetime | None
    open: int
    owner: str
    version: int
    updated_at: datetime


_SELECT = f"""
SELECT r.id, {columns(AlertRuleFields, "r")}, r.failing_since, r.owner, r.version, r.updated_at,
       (SELECT count(*) FROM alert a WHERE a.rule_id = r.id AND a.resolved_at IS NULL) AS open
FROM alert_rule r
"""  # noqa: S608  (constants)


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
    rows = fetch(AlertRuleRow, f"{_SELECT} ORDER BY r.name")
    return [row for row in rows if sees_rule(principal, row.kinds, row.addresses)]


def get_alert_rule(rule_id: int, *, principal: Principal) -> AlertRuleRow:
    """Return the rule; raise NotFound, also out of scope."""
    principal.require(Permission.READ)
    found = fetch_by_id(AlertRuleRow, f"{_SELECT} WHERE r.id = %s", rule_id)
    if found is None or not sees_rule(principal, found.kinds, found.addresses):
        raise NotFound(f"There is no alert rule {rule_id}.")
    return found


def failing_rules(principal: Principal) -> int:
    """Return how many rules in scope are switched on and have deliveries that fail."""
    rows = fetch_rows("SELECT kinds, addresses FROM alert_rule WHERE failing_since IS NOT NULL AND is_enabled")
    return sum(sees_rule(principal, kinds, addresses) for kinds, addresses in rows)
