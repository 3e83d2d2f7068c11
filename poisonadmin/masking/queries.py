"""Masking rules as they are shown."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import Versioned, columns, fetch, fetch_by_id
from poisonadmin.core.queries.sql import Sql
from poisonadmin.masking.domain import MaskingRuleFields

_RULES = Sql(
    "SELECT r.id, {fields}, r.version, r.updated_at FROM masking_rule r", fields=columns(MaskingRuleFields, "r")
)


@dataclass(frozen=True, kw_only=True)
class MaskingRuleRow(MaskingRuleFields, Versioned):
    """A masking rule: what roles but `allowed_roles` may not read of messages at the addresses of `match`.

    `json_path`, `header`, `key` or `regex` says which part; with all of them null it is the whole message.
    """

    id: int
    version: int
    updated_at: datetime


def list_masking_rules(*, principal: Principal) -> list[MaskingRuleRow]:
    """Return the rules about addresses in scope, by pattern."""
    principal.require(Permission.READ)
    rows = fetch(MaskingRuleRow, _RULES + Sql("ORDER BY r.match, r.id"))
    return [row for row in rows if principal.covers(row.match)]


def get_masking_rule(rule_id: int, *, principal: Principal) -> MaskingRuleRow:
    """Return the rule; raise NotFound."""
    principal.require(Permission.READ)
    found = fetch_by_id(MaskingRuleRow, f"{_RULES} WHERE r.id = %s", rule_id)
    if found is None or not principal.covers(found.match):
        raise NotFound(f"There is no masking rule {rule_id}.")
    return found
