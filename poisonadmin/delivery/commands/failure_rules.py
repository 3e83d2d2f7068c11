"""Rules after a failure, asked while a settle judges; and the hits of all rules, counted in one update."""

from collections import Counter

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit
from poisonadmin.delivery.commands.retry_decisions import Answered
from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.delivery.domain.retry_decision import RetryDecision
from poisonadmin.delivery.domain.retry_limits import policy_wait
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.rules.domain.failure_rules import first_match, overridden
from poisonadmin.rules.domain.rules import RuleFailed
from poisonadmin.rules.queries.rules import FailureTable
from poisonadmin.store.models.rule import Rule

# Rules are locked in the order of their ids, so that two settles never wait for each other.
_COUNT = """
WITH hit AS (SELECT * FROM unnest(%(ids)s::bigint[], %(counts)s::bigint[]) AS h (id, n)),
     locked AS (SELECT id FROM rule WHERE id IN (SELECT id FROM hit) ORDER BY id FOR NO KEY UPDATE)
UPDATE rule SET hits = hits + hit.n, last_hit_at = now()
FROM hit JOIN locked ON locked.id = hit.id WHERE rule.id = hit.id
"""


class FailureRuleDecisions:
    """The rules after a failure during one settle, and what was decided by which rule."""

    def __init__(self, table: FailureTable) -> None:
        self._table = table
        self._hits: Counter[int] = Counter()

    def apply(self, one: Answered, policy: Policy, decision: RetryDecision) -> RetryDecision:
        """Return the decision, or the one that the first matching rule gives in its place.

        Only failures are asked about: whom a crash accuses, and what a handler has chosen, is no rule's business.
        """
        if one.outcome == Outcome.RULED and one.rule_id is not None:
            self._hits[one.rule_id] += 1
        if one.outcome != Outcome.FAILED or (found := first_match(self._table.rules, one)) is None:
            return decision
        self._hits[found.rule.id] += 1
        wait = policy_wait(policy, decision, message_id=one.id, attempt_number=one.attempt_number)
        return overridden(decision, found, delay_ms=wait, hops=one.hops)

    def count(self, cursor: CursorWrapper) -> None:
        """Add the hits to the rules', and switch off what cannot be asked: a decision does not wait for a broken rule.

        Call late in the transaction: other settles wait for these rows.
        """
        for failed in self._table.broken:
            _switch_off(failed)
        if self._hits:
            ids = sorted(self._hits)
            cursor.execute(_COUNT, {"ids": ids, "counts": [self._hits[rule_id] for rule_id in ids]})


def _switch_off(failed: RuleFailed) -> None:
    rule = failed.rule
    mine = Rule.objects.filter(id=rule.id, version=rule.version, is_enabled=True)
    if mine.update(is_enabled=False, fault=failed.why):
        details = {"version": rule.version}
        audit.record("system", "rule.switched_off", "rule", rule.name, note=failed.why, details=details)
