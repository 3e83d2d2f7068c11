"""The rules that say which operations need a sign-off."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_by_id
from poisonadmin.core.queries.sql import Sql


@dataclass(frozen=True)
class SignOffRuleRow(Versioned):
    """An operation on more than `above` messages at addresses that `match` needs a sign-off. `action` null: any."""

    id: int
    match: str
    action: str | None
    above: int
    version: int
    updated_by: str
    updated_at: datetime

    @property
    def name(self) -> str:
        """The rule's name in the audit log."""
        return rule_name(self.match, self.action)


def rule_name(match: str, action: str | None) -> str:
    """Return what the audit log calls the rule of a pattern and an action.

    >>> rule_name("orders.#", None)
    'orders.# any'
    """
    return f"{match[:200]} {action or 'any'}"


_SELECT = Sql("SELECT {columns} FROM sign_off_rule", columns=columns(SignOffRuleRow, "sign_off_rule"))


def list_sign_off_rules(*, principal: Principal) -> list[SignOffRuleRow]:
    """Return the rules by pattern, of those whose pattern lies within the caller's scope."""
    principal.require(Permission.READ)
    found = fetch(SignOffRuleRow, f"{_SELECT} ORDER BY match, action NULLS FIRST")
    return [row for row in found if principal.covers(row.match)]


def get_sign_off_rule(rule_id: int, *, principal: Principal) -> SignOffRuleRow:
    """Return the rule; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(SignOffRuleRow, f"{_SELECT} WHERE id = %s", rule_id)
    if found is None or not principal.covers(found.match):
        raise NotFound(f"There is no sign-off rule {rule_id}.")
    return found
