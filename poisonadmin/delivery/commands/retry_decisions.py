"""What was answered and is not simply delivered, and the decision on each."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.backends.utils import CursorWrapper

from poisonadmin.delivery.commands.in_flight import TAKEN
from poisonadmin.delivery.domain import retry_decision
from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.delivery.domain.retry_decision import RetryDecision, on_crash, on_failure
from poisonadmin.messages.domain.states import Event
from poisonadmin.policies.domain.policy import Blame, Policy
from poisonadmin.rules.domain.rules import Before

FAILURES = frozenset({Outcome.FAILED, Outcome.CRASHED, Outcome.NODE_LOST, Outcome.SUSPECTED})
# The loss of a whole node while a candidate runs alone may be an outside kill; every third such loss counts (R2).
LOSSES_A_CRASH = 3


class Answered(NamedTuple):
    """A message in DLNG whose attempt is written, locked. `losses`: nodes lost with it while it was tried alone,
    `hops`: its moves by us, where it was or may be moved. `destination` and `tags` are read where rules ask for them.
    """

    id: int
    attempt_number: int
    failure_count: int
    crash_count: int
    candidate: bool
    address: str
    address_id: int
    plain_lane_id: int
    conversation_id: str | None
    outcome: str
    fingerprint: str
    title: str
    error_class: str
    error_message: str | None
    finished_at: datetime
    retry_after_ms: int | None
    move_to: str | None
    losses: int
    hops: int
    cause_class: str | None = None
    status_code: int | None = None
    rule_id: int | None = None
    ruling: str | None = None
    destination: str | None = None
    tags: Sequence[str] = ()

    @property
    def is_failure(self) -> bool:
        """Whether it belongs to a failure group."""
        return self.outcome in FAILURES

    @property
    def failures(self) -> int:
        """How often it has failed, should this be a failure."""
        return self.failure_count + 1

    @property
    def why(self) -> str:
        """What a poison list says of it: the exception's words, or those of the guard for a crash (AMPS-3)."""
        return (self.error_message or self.error_class) if self.outcome == Outcome.FAILED else "Fatal error."


_ANSWERED = f"""
SELECT answered.* FROM {TAKEN} CROSS JOIN LATERAL (
    SELECT message.id, message.attempt_number, failure_count, crash_count, candidate, address.name, address.id,
           lane.id AS plain_lane_id, envelope.conversation_id, outcome, fingerprint, title, error_class, error_message,
           finished_at, retry_after_ms, move_to,
           CASE WHEN outcome = 'node_lost' AND taken.is_isolation THEN (
               SELECT count(*) FROM attempt AS loss JOIN claim ON claim.id = loss.claim_id AND claim.is_isolation
               WHERE loss.message_id = message.id AND loss.outcome = 'node_lost') ELSE 0 END AS losses,
           CASE WHEN %(rules)s OR outcome IN ('moved', 'ruled')
                THEN (SELECT count(*) FROM hop WHERE hop.message_id = message.id AND times IS NULL) ELSE 0 END AS hops,
           cause_class, status_code, rule_id, ruling,
           CASE WHEN %(rules)s THEN (SELECT name FROM destination WHERE id = attempt.destination_id) END AS destination,
           CASE WHEN %(rules)s THEN
               coalesce((SELECT tags FROM message_tag WHERE message_id = message.id), '{{}}') END AS tags
    FROM message
         JOIN attempt ON attempt.message_id = message.id AND attempt.attempt_number = message.attempt_number
         JOIN address ON address.id = message.address_id JOIN envelope ON envelope.id = message.id
         JOIN lane ON lane.address_id = address.id AND lane.conversation_id IS NULL AND NOT lane.is_isolation
    WHERE message.id = taken.message_id AND message.claim_id = taken.claim_id AND state = 'DLNG'
      AND outcome <> 'delivered'
    FOR UPDATE OF message SKIP LOCKED
) AS answered
WHERE %(claim)s::bigint IS NULL OR taken.claim_id = %(claim)s LIMIT %(limit)s
"""  # noqa: S608  (fragments are constants)


def read_answered(
    cursor: CursorWrapper, claim_id: int | None, limit: int, *, for_rules: bool = False
) -> list[Answered]:
    """Lock and return what is answered and not delivered, in the order of the attempts' ends.

    What another settle holds is left to it. `for_rules`: also what only rules ask for.
    """
    cursor.execute(_ANSWERED, {"claim": claim_id, "limit": limit, "rules": for_rules})
    return sorted((Answered(*row) for row in cursor.fetchall()), key=lambda one: (one.finished_at, one.id))


def decide_retry(one: Answered, policy: Policy, *, conversation_failures: int | None = None) -> RetryDecision:
    """Return the decision on one attempt under the policy of its address.

    `conversation_failures`: its conversation's count with it, None where that is not counted.
    """
    match Outcome(one.outcome):
        case Outcome.DISCARDED:
            return retry_decision.on_discarded(one.failure_count)
        case Outcome.MOVED:
            return retry_decision.on_moved(one.move_to or one.address, hops=one.hops)
        case Outcome.ROLLED_BACK:
            return retry_decision.on_rolled_back(
                policy, message_id=one.id, attempt_number=one.attempt_number, failure_count=one.failure_count
            )
        case Outcome.CONVERSATION_ENDED:
            return retry_decision.on_conversation_ended(one.failure_count)
        case Outcome.RULED:
            do = Before(one.ruling or Before.REJECT)
            return retry_decision.on_ruled(do, one.move_to, failure_count=one.failure_count, hops=one.hops)
        case Outcome.CRASHED | Outcome.SUSPECTED:
            return _crashed(one, policy, Event.CRASHED, is_counted=True)
        case Outcome.NODE_LOST:
            # Under the plain rule a lost node is a crash; else it only casts suspicion.
            is_third = one.losses > 0 and one.losses % LOSSES_A_CRASH == 0
            is_counted = policy.blame is Blame.ALL_IN_FLIGHT or is_third
            return _crashed(one, policy, Event.NODE_LOST, is_counted=is_counted)
    return on_failure(
        policy,
        message_id=one.id,
        attempt_number=one.attempt_number,
        failure_count=one.failure_count,
        address=one.address,
        retry_after_ms=one.retry_after_ms,
        conversation_failures=conversation_failures,
    )


def _crashed(one: Answered, policy: Policy, event: Event, *, is_counted: bool) -> RetryDecision:
    count = one.failure_count
    return on_crash(policy, one.crash_count, one.candidate, failure_count=count, is_counted=is_counted, event=event)
