"""Reads attempts that did not simply deliver their messages, and decides on each: by its policy, then by rules."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit
from poisonadmin.core.queries.sql import join, named_sql, raw
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.messages.domain.states import Event
from poisonadmin.policies.domain import answer_decision
from poisonadmin.policies.domain.hot_loops import IMMEDIATE_REDELIVERIES, WAIT_MS, WITHIN_SECONDS
from poisonadmin.policies.domain.policy import Blame, Policy
from poisonadmin.policies.domain.retry_decision import ConversationEnd, RetryDecision, on_crash, on_failure
from poisonadmin.policies.domain.retry_limits import policy_wait
from poisonadmin.rules.domain.content_rules import on_ruled
from poisonadmin.rules.domain.failure_rules import first_match, overridden
from poisonadmin.rules.domain.rules import Before, RuleFailed
from poisonadmin.rules.queries import FailureTable
from poisonadmin.store.models.rule import Rule

FAILURES = frozenset({Outcome.FAILED, Outcome.CRASHED, Outcome.NODE_LOST, Outcome.SUSPECTED})


class Answered(NamedTuple):
    """A message in DLNG whose attempt is written, locked. `is_alone`: it was tried by itself, `is_hot`: as for `paced`.
    `destination` and `tags` are read where rules ask for them. `lanes_of`: its operation, where that has lanes.
    """

    id: int
    attempt_number: int
    failure_count: int
    crash_count: int
    candidate: bool
    address: str
    address_id: int
    plain_lane_id: int
    lanes_of: int | None
    conversation_id: str | None
    outcome: str
    fingerprint: str
    title: str
    error_class: str
    error_message: str | None
    finished_at: datetime
    retry_after_ms: int | None
    move_to: str | None
    is_alone: bool
    is_hot: bool
    cause_class: str | None = None
    status_code: int | None = None
    rule_id: int | None = None
    rule_action: str | None = None
    error_code: int | None = None
    destination: str | None = None
    tags: Sequence[str] = ()
    consumer_version: str | None = None

    @property
    def is_failure(self) -> bool:
        """True where it belongs to a failure group: also where it ended its conversation with an error (R6)."""
        ends = self.outcome in (Outcome.CONVERSATION_ENDED, Outcome.RULED) and self.fingerprint is not None
        return ends or self.outcome in FAILURES

    @property
    def failures(self) -> int:
        """The count of its failures, should this be one."""
        return self.failure_count + 1

    @property
    def conversation_error(self) -> ConversationEnd | None:
        """The error with which its consumer ended its conversation; None: it ended normally."""
        if self.error_code is None:
            return None
        return ConversationEnd(self.error_code, self.error_message or "")

    @property
    def why(self) -> str:
        """The reason in a poison list: the exception's words, or those of the guard for a crash (AMPS-3)."""
        return (self.error_message or self.error_class) if self.outcome == Outcome.FAILED else "Fatal error."


# Of the last eleven attempts, which ten redeliveries part; or of the wait that led to this attempt.
_IS_HOT = named_sql(
    """message.attempt_number > {most} AND (
    (SELECT count(*) > {most} AND min(finished_at) > max(finished_at) - interval '{within} s'
     FROM (SELECT finished_at FROM attempt AS one WHERE one.message_id = message.id
           ORDER BY attempt_number DESC LIMIT {most} + 1) AS latest)
    OR EXISTS (SELECT FROM attempt AS one
               WHERE one.message_id = message.id AND one.attempt_number = message.attempt_number - 1
                 AND message.due_at >= one.finished_at + interval '{wait} ms'))""",
    most=IMMEDIATE_REDELIVERIES,
    within=WITHIN_SECONDS,
    wait=WAIT_MS,
)

# For what of an `Answered` is not a column of the attempt itself.
_EXPRESSIONS = {
    "id": "message.id",
    "attempt_number": "message.attempt_number",
    "failure_count": "message.failure_count",
    "crash_count": "message.crash_count",
    "candidate": "message.candidate",
    "address": "address.name",
    "address_id": "address.id",
    "plain_lane_id": "lane.id",
    "lanes_of": "(SELECT id FROM operation WHERE operation.id = message.operation_id AND has_lanes)",
    "conversation_id": "envelope.conversation_id",
    "is_alone": "(SELECT is_isolation FROM claim WHERE id = %(claim)s)",
    "is_hot": str(_IS_HOT),
    "destination": "CASE WHEN %(rules)s THEN (SELECT name FROM destination WHERE id = attempt.destination_id) END",
    "tags": """CASE WHEN %(rules)s THEN
        coalesce((SELECT tags FROM annotation WHERE message_id = message.id), '{}') END""",
}
# An element of FROM: each message of the batches that was not delivered, once. A message may be in two batches: written
# by a node that was taken for dead, and by the process that took it for dead.
_NOT_DELIVERED = raw("""
(SELECT DISTINCT message_id
 FROM (SELECT unnest(message_ids) AS message_id, unnest(delivered) AS attempt_number
       FROM outcome_batch WHERE id = ANY(%(batches)s)) AS written WHERE attempt_number IS NULL) AS answered
""")
_ANSWERED = named_sql(
    """
SELECT decided.* FROM {not_delivered} CROSS JOIN LATERAL (
    SELECT {columns}
    FROM message
         JOIN attempt ON attempt.message_id = message.id AND attempt.attempt_number = message.attempt_number
         JOIN address ON address.id = message.address_id JOIN envelope ON envelope.id = message.id
         JOIN lane ON lane.address_id = address.id AND lane.is_plain
    WHERE message.id = answered.message_id AND message.claim_id = %(claim)s AND state = 'DLNG'
      AND outcome <> 'delivered'
    FOR UPDATE OF message
) AS decided
""",
    not_delivered=_NOT_DELIVERED,
    columns=join(", ", (raw(f"{_EXPRESSIONS.get(name, f'attempt.{name}')} AS {name}") for name in Answered._fields)),
)


def read_answered(cursor: CursorWrapper, claim_id: int, batches: list[int], *, for_rules: bool) -> list[Answered]:
    """Lock and return what of a claim's batches was answered and not delivered, in the order of the attempts' ends.

    `for_rules`: also what only rules ask for.
    """
    cursor.execute(str(_ANSWERED), {"claim": claim_id, "batches": batches, "rules": for_rules})
    return sorted((Answered(*row) for row in cursor.fetchall()), key=lambda one: (one.finished_at, one.id))


def decide_retry(one: Answered, policy: Policy, *, conversation_failures: int | None) -> RetryDecision:
    """Return the decision on one attempt under the policy of its address, before rules and `paced`.

    `conversation_failures`: its conversation's count with it, None where that is not counted.
    """
    match Outcome(one.outcome):
        case Outcome.DISCARDED:
            return answer_decision.on_discarded(one.failure_count)
        case Outcome.MOVED:
            return answer_decision.on_moved(one.move_to or one.address)
        case Outcome.ROLLED_BACK:
            return answer_decision.on_rolled_back(policy, one)
        case Outcome.CONVERSATION_ENDED:
            return answer_decision.on_conversation_ended(one.failure_count, one.conversation_error)
        case Outcome.RULED:
            do = Before(one.rule_action or Before.REJECT)
            return on_ruled(do, one.move_to, failure_count=one.failure_count, why=one.error_message or "")
        case Outcome.CRASHED | Outcome.SUSPECTED:
            return on_crash(policy, one, one.crash_count, one.candidate)
        case Outcome.NODE_LOST:
            # Under the plain rule a lost node is a crash; under the exact one it is for what ran alone, and else only
            # casts suspicion.
            is_counted = policy.blame is Blame.ALL_IN_FLIGHT or one.is_alone
            return on_crash(policy, one, one.crash_count, one.candidate, is_counted=is_counted, event=Event.NODE_LOST)
    return on_failure(policy, one, retry_after_ms=one.retry_after_ms, conversation_failures=conversation_failures)


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
        return overridden(decision, found, delay_ms=wait)

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
