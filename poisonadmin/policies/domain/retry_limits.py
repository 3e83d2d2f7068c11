"""The limits of a message: its attempts in all, and the failures that each breaker has left."""

from dataclasses import dataclass

from poisonadmin.messages.domain.states import State
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import PlainTry, RetryDecision, on_failure
from poisonadmin.policies.domain.retry_schedule import delay_ms, jitter


@dataclass(frozen=True)
class Breaker:
    """A limit that stops more than the message: at `limit` of what `count` counts, its `consequence` follows.

    `left`: so many more of `what` until then, at least one. `value`: of the setting, where that is not the limit.
    """

    setting: str
    count: int
    limit: int
    what: str
    consequence: str
    value: int | None = None

    @property
    def left(self) -> int:
        """The number of failures that are left."""
        return max(1, self.limit - self.count)

    @property
    def sentence(self) -> str:
        """Say how far it is.

        >>> Breaker("queue_off_after_rollbacks", 4, 5, "roll-back", "stops the address").sentence
        'one more roll-back stops the address (4 counted, queue_off_after_rollbacks 5)'
        """
        more = f"one more {self.what}" if self.left == 1 else f"{self.left} more {self.what}s"
        value = self.limit if self.value is None else self.value
        return f"{more} {self._follows(self.left)} ({self.count} counted, {self.setting} {value})"

    @property
    def rule(self) -> str:
        """Say what it is, whatever is counted.

        >>> Breaker("listener_max_retries", 4, 5, "failure", "stops the address").rule
        '5 failures stop the address'
        """
        many = f"{self.limit} {self.what}" + ("s" if self.limit != 1 else "")
        return f"{many} {self._follows(self.limit)}"

    def _follows(self, number: int) -> str:
        verb, _, rest = self.consequence.partition(" ")
        return f"{verb if number == 1 else verb.removesuffix('s')} {rest}"


def attempts_in_all(policy: Policy, address: str = "") -> int | None:
    """Return the failure after which a message on `address` is tried no more; None: it is tried for ever.

    Breakers, which stop an address or end a conversation, are not among these limits.

    >>> attempts_in_all(Policy(max_delivery_attempts=10, backout_threshold=3)), attempts_in_all(Policy())
    (3, None)
    """
    limits = {policy.backout_threshold, policy.failures_to_list, policy.max_failed_deliveries}
    for limit in sorted({*limits, policy.max_delivery_attempts}):
        # Which limit goes before which is the decision's to know, and it changes at a limit only.
        if limit > 0 and _after(policy, limit, address).state is not State.TBDL:
            return limit
    return None


def _after(policy: Policy, failure: int, address: str) -> RetryDecision:
    return on_failure(policy, PlainTry(attempt_number=failure, failure_count=failure - 1, address=address))


def policy_wait(policy: Policy, decision: RetryDecision, *, message_id: int, attempt_number: int) -> int:
    """Return the wait of the policy's decision in milliseconds; at a limit, what it would be were there none."""
    if decision.delay_ms is not None:
        return decision.delay_ms
    sign, fraction = jitter(message_id, attempt_number)
    return delay_ms(policy, decision.failure_count, sign=sign, fraction=fraction)


def breakers(
    policy: Policy, *, failure_count: int, rollbacks_in_row: int, conversation_failures: int | None
) -> tuple[Breaker, ...]:
    """Return the breakers in force on a message; `conversation_failures` None: it is in no conversation."""
    found = []
    if policy.listener_max_retries is not None:
        retries = policy.listener_max_retries
        found.append(
            Breaker("listener_max_retries", failure_count, max(retries, 1), "failure", "stops the address", retries)
        )
    if policy.queue_off_after_rollbacks > 0:
        limit = policy.queue_off_after_rollbacks
        found.append(Breaker("queue_off_after_rollbacks", rollbacks_in_row, limit, "roll-back", "stops the address"))
    if policy.conversation_failure_limit > 0 and conversation_failures is not None:
        limit = policy.conversation_failure_limit
        found.append(
            Breaker("conversation_failure_limit", conversation_failures, limit, "failure", "ends the conversation")
        )
    return tuple(found)
