"""The rules after a failure as they are in force, compiled once a version."""

import json
from dataclasses import dataclass, field
from functools import lru_cache

from django.db import connection

from poisonadmin.rules.domain.failure_rules import FailureRule, compile_failure_rule
from poisonadmin.rules.domain.rules import RuleDefinition, RuleFailed

_RULES = """
SELECT id, name, version, match::text, action::text FROM rule
WHERE stage = 'after' AND is_enabled AND (ends_at IS NULL OR ends_at > now()) ORDER BY position, id
"""


@dataclass(frozen=True)
class FailureTable:
    """The enabled rules in their order, and those among them that cannot be asked."""

    rules: list[FailureRule] = field(default_factory=list)
    broken: list[RuleFailed] = field(default_factory=list)


def failure_rules() -> FailureTable:
    """Return the enabled rules after a failure, as they stand in this transaction."""
    table = FailureTable()
    with connection.cursor() as cursor:
        cursor.execute(_RULES)
        rows = cursor.fetchall()
    for row in rows:
        try:
            table.rules.append(_compiled(*row))
        except RuleFailed as failed:
            table.broken.append(failed)
    return table


@lru_cache(maxsize=1024)
def _compiled(rule_id: int, name: str, version: int, match: str, action: str) -> FailureRule:
    return compile_failure_rule(RuleDefinition(rule_id, name, version, json.loads(match), json.loads(action)))
