"""The rules after a failure as they are in force, compiled once a version."""

import json
from functools import lru_cache

from django.db import connection

from poisonadmin.domain.failure_rules import FailureRule, compile_failure_rule
from poisonadmin.domain.rules import Rule

_RULES = """
SELECT id, name, version, match::text, action::text FROM rule
WHERE stage = 'after' AND is_enabled AND (ends_at IS NULL OR ends_at > now()) ORDER BY position, id
"""


def failure_rules() -> list[FailureRule]:
    """Return the enabled rules after a failure, in their order, as they stand in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_RULES)
        return [_compiled(*row) for row in cursor.fetchall()]


@lru_cache(maxsize=1024)
def _compiled(rule_id: int, name: str, version: int, match: str, action: str) -> FailureRule:
    return compile_failure_rule(Rule(rule_id, name, version, json.loads(match), json.loads(action)))
