"""Warnings before messages that crashed are approved, by the policy in force where each goes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.policies.domain.policy import Blame, Policy
from poisonadmin.policies.domain.retry_decision import PlainTry, on_crash
from poisonadmin.policies.queries import policy_index

MOST_CRASHES = 100


@dataclass(frozen=True)
class ApprovalWarning:
    """The limit that awaits an approved message. `crashes`: so many counted crashes stop it again; None: none does.

    `is_cleared`: the policy forgets its crashes at an approval. `is_listed`: the last of them puts it on the poison
    list; `is_exhausted`: it uses up its attempts, since crashes count as failures; neither: it is blacklisted.
    `is_alone`: it is delivered by itself while it is a candidate; not under the plain rule, `all_in_flight`.
    """

    crashes: int | None
    is_cleared: bool = False
    is_listed: bool = False
    is_exhausted: bool = False
    is_alone: bool = True

    def stops(self, *, is_plural: bool = False, is_several: bool = False) -> str:
        """Return what the crash (`is_several`: the crashes) does to the message (`is_plural`: the messages).

        >>> ApprovalWarning(1).stops(), ApprovalWarning(2, is_listed=True).stops(is_plural=True, is_several=True)
        ('blacklists it', 'put them on the poison list')
        """
        s = "" if is_several else "s"
        if self.is_exhausted:
            return f"use{s} up {'their' if is_plural else 'its'} attempts"
        them = "them" if is_plural else "it"
        return f"put{s} {them} on the poison list" if self.is_listed else f"blacklist{s} {them}"

    def sentence(self, n: int, *, total: int) -> str:
        """Return what awaits `n` of `total` messages, which crashed their consumer.

        >>> ApprovalWarning(1).sentence(1, total=1)
        'It crashed its consumer before. It is delivered alone, and one more crash blacklists it again.'
        >>> ApprovalWarning(2, is_cleared=True).sentence(3, total=5)
        '3 of them crashed their consumer before. Approval resets the count: 2 crashes blacklist them again.'
        """
        they, their = ("It is", "its") if n == 1 else ("They are", "their")
        who = "It" if total == 1 else f"All {n:,}" if n == total else f"{n:,} of them"
        start = f"{who} crashed {their} consumer before."
        if self.crashes is None:
            return f"{start} The policy switches blacklisting off: every crash is followed by another delivery."
        several = self.crashes > 1
        stops = self.stops(is_plural=n > 1, is_several=several)
        if (self.is_cleared or not several) and not (self.is_listed or self.is_exhausted):
            stops += " again"
        if self.is_cleared:
            crashes = f"{self.crashes} crashes" if several else "one crash"
            return f"{start} Approval resets the count: {crashes} {stops}."
        crashes = f"{self.crashes} more crashes" if several else "one more crash"
        return f"{start} {they} delivered {'alone' if self.is_alone else 'among others'}, and {crashes} {stops}."


def approval_warnings(rows: Iterable[MessageRow]) -> list[tuple[ApprovalWarning, int]]:
    """Return how many of the messages that crashed have which warning, most first; others are left out."""
    policies = policy_index()
    return Counter(
        approval_warning(policies.resolve(row.original_address or row.address).policy, row.crash_count)
        for row in rows
        if row.candidate or row.crash_count
    ).most_common()


def approval_warning_of(message: MessageRow) -> ApprovalWarning | None:
    """Return what awaits a message that waits, as it is, or one that is stopped, if it is approved.

    None: it is not known to have crashed anything.
    """
    if not (message.candidate or message.crash_count):
        return None
    policies = policy_index()
    if message.state == State.NDLV:
        return approval_warning(
            policies.resolve(message.original_address or message.address).policy, message.crash_count
        )
    policy = replace(policies.resolve(message.address).policy, approve_clears_candidate=False)
    return approval_warning(policy, message.crash_count, message.failure_count)


def approval_warning(policy: Policy, crash_count: int, failure_count: int = 0) -> ApprovalWarning:
    """Return what awaits a message that has crashed `crash_count` times and is approved (R3).

    `failure_count`: that of a message that waits; an approval resets it.

    >>> approval_warning(Policy(blacklisting_enabled=True), 2)
    ApprovalWarning(crashes=1, is_cleared=False, is_listed=False, is_exhausted=False, is_alone=True)
    >>> approval_warning(Policy(blacklisting_enabled=True, approve_clears_candidate=True), 2)
    ApprovalWarning(crashes=2, is_cleared=True, is_listed=False, is_exhausted=False, is_alone=True)
    >>> approval_warning(Policy(blacklisting_enabled=False), 2)
    ApprovalWarning(crashes=None, is_cleared=False, is_listed=False, is_exhausted=False, is_alone=True)
    """
    is_cleared = policy.approve_clears_candidate
    is_alone = policy.blame is Blame.EXACT
    count = 0 if is_cleared else crash_count
    for crashes in range(1, MOST_CRASHES + 1):
        decision = on_crash(policy, PlainTry(failure_count=failure_count), count, not is_cleared)
        if decision.state is not State.TBDL or decision.move_to is not None:
            is_listed, is_blacklisted = (decision.reason is reason for reason in (Reason.LISTED, Reason.BLACKLISTED))
            return ApprovalWarning(crashes, is_cleared, is_listed, not (is_listed or is_blacklisted), is_alone)
        count, failure_count = decision.crash_count or 0, decision.failure_count
    return ApprovalWarning(None, is_cleared, is_alone=is_alone)
