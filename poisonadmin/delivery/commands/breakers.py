"""Counts that are not a message's own: failures of a conversation, roll-backs in a row on an address (SSB-1 to SSB-11).

Both end with a delivery. A settle loads them locked, counts in the order in which its attempts ended, and writes them
back in the same transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.backends.utils import CursorWrapper

from poisonadmin.delivery.commands.retry_decisions import Answered
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_decision import ConversationEnd

Key = tuple[int, str]  # address id, conversation id

# A transaction that was aborted (R3), and what says nothing of one.
ABORTS = frozenset({Outcome.ROLLED_BACK, Outcome.CRASHED, Outcome.NODE_LOST})
_ENDS_NO_ROW = frozenset({Outcome.FAILED, Outcome.SUSPECTED, Outcome.RULED})

_CONVERSATIONS = """
SELECT conversation.address_id, conversation.conversation_id, failures
FROM unnest(%(addresses)s::bigint[], %(conversations)s::text[]) AS wanted (address_id, conversation_id)
     JOIN conversation USING (address_id, conversation_id)
ORDER BY 1, 2 FOR UPDATE OF conversation
"""

_WRITE_CONVERSATIONS = """
INSERT INTO conversation AS known (address_id, conversation_id, failures, last_message_id, failed_at, ended_at,
                                   error_code, error)
SELECT address_id, conversation_id, failures, message_id, now(), CASE WHEN is_ended THEN now() END, code, description
FROM unnest(%(addresses)s::bigint[], %(conversations)s::text[], %(failures)s::int[], %(messages)s::bigint[],
            %(ended)s::bool[], %(codes)s::int[], %(descriptions)s::text[])
     AS counted (address_id, conversation_id, failures, message_id, is_ended, code, description) ORDER BY 1, 2
ON CONFLICT (address_id, conversation_id) DO UPDATE
SET failures = excluded.failures, last_message_id = excluded.last_message_id, failed_at = excluded.failed_at,
    ended_at = coalesce(known.ended_at, excluded.ended_at), error = coalesce(known.error, excluded.error),
    error_code = coalesce(known.error_code, excluded.error_code)
"""

_ADDRESSES = "SELECT id, rollbacks_in_row FROM address WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE"

_WRITE_ADDRESSES = """
UPDATE address SET rollbacks_in_row = counted.n
FROM unnest(%(ids)s::bigint[], %(counts)s::int[]) AS counted (id, n)
WHERE address.id = counted.id AND rollbacks_in_row <> counted.n
"""

_WATCHED = "SELECT coalesce(array_agg(id), '{}') FROM address WHERE is_watched"

_CLEAR_CONVERSATIONS = """
DELETE FROM conversation USING (
    SELECT conversation.address_id, conversation.conversation_id
    FROM message JOIN envelope ON envelope.id = message.id
         JOIN conversation ON conversation.address_id = message.address_id
                              AND conversation.conversation_id = envelope.conversation_id
    WHERE message.id = ANY(%(ids)s) AND ended_at IS NULL ORDER BY 1, 2 FOR UPDATE OF conversation
) AS over
WHERE conversation.address_id = over.address_id AND conversation.conversation_id = over.conversation_id
"""

_CLEAR_ADDRESSES = """
UPDATE address SET rollbacks_in_row = 0 WHERE rollbacks_in_row > 0 AND id IN (
    SELECT id FROM address WHERE id IN (SELECT address_id FROM message WHERE message.id = ANY(%(ids)s))
    ORDER BY id FOR NO KEY UPDATE)
"""


@dataclass
class BreakerCounts:
    """The counts of one settle. `last`: the message that a conversation failed with last, or was ended with.

    `ends`: the conversations that end, each with its error, None for none.
    """

    failures: dict[Key, int] = field(default_factory=dict)
    last: dict[Key, int] = field(default_factory=dict)
    ends: dict[Key, ConversationEnd | None] = field(default_factory=dict)
    rollbacks: dict[int, int] = field(default_factory=dict)

    def of_conversation(self, one: Answered, policy: Policy) -> int | None:
        """Count a failure into its conversation and return the count; None where nothing is counted (SSB-11)."""
        if one.conversation_id is None or policy.conversation_failure_limit == 0 or one.outcome != Outcome.FAILED:
            return None
        key = (one.address_id, one.conversation_id)
        self.failures[key] = self.failures.get(key, 0) + 1
        self.last[key] = one.id
        return self.failures[key]

    def ended(self, one: Answered, error: ConversationEnd | None) -> None:
        """Note that a message has ended its conversation, and start its count again (SSB-8, SSB-10)."""
        if one.conversation_id is not None:
            key = (one.address_id, one.conversation_id)
            self.failures[key] = 0
            self.last[key] = one.id  # what has a last message is written back
            self.ends[key] = error

    def switches_off(self, one: Answered, policy: Policy) -> bool:
        """Count an aborted transaction, or the end of a row of them; return whether the address is to stop (SSB-1).

        A roll-back and a crash abort it. An exception, which the procedure catches, ends no row (R3).
        """
        limit = policy.queue_off_after_rollbacks
        if limit == 0 or one.outcome in _ENDS_NO_ROW:
            return False
        in_row = self.rollbacks.get(one.address_id, 0) + 1 if one.outcome in ABORTS else 0
        self.rollbacks[one.address_id] = 0 if in_row >= limit else in_row
        return in_row >= limit


def load(cursor: CursorWrapper, answered: Sequence[Answered], in_force: Mapping[str, Policy]) -> BreakerCounts:
    """Return the counts that these attempts may change, locked; empty where no policy counts."""
    counting = BreakerCounts()
    keys = sorted(
        {
            (one.address_id, one.conversation_id)
            for one in answered
            if one.conversation_id is not None and in_force[one.address].conversation_failure_limit
        }
    )
    if keys:
        cursor.execute(_CONVERSATIONS, {"addresses": [a for a, _ in keys], "conversations": [c for _, c in keys]})
        counting.failures = {(address, conversation): n for address, conversation, n in cursor.fetchall()}
    breakers = {one.address_id for one in answered if in_force[one.address].queue_off_after_rollbacks}
    if breakers:
        cursor.execute(_ADDRESSES, {"ids": sorted(breakers)})
        counting.rollbacks = dict(cursor.fetchall())
    return counting


def save(cursor: CursorWrapper, counting: BreakerCounts) -> None:
    """Write the counts back."""
    changed = sorted(counting.last)
    if changed:
        errors = [counting.ends.get(key) for key in changed]
        cursor.execute(
            _WRITE_CONVERSATIONS,
            {
                "addresses": [address for address, _ in changed],
                "conversations": [conversation for _, conversation in changed],
                "failures": [counting.failures[key] for key in changed],
                "messages": [counting.last[key] for key in changed],
                "ended": [key in counting.ends for key in changed],
                "codes": [error and error.code for error in errors],
                "descriptions": [error and error.description for error in errors],
            },
        )
    if counting.rollbacks:
        ids = sorted(counting.rollbacks)
        cursor.execute(_WRITE_ADDRESSES, {"ids": ids, "counts": [counting.rollbacks[one] for one in ids]})


def watched(cursor: CursorWrapper) -> list[int]:
    """Return the addresses on which a delivery ends a count."""
    cursor.execute(_WATCHED)
    found: list[int] = cursor.fetchone()[0]
    return found


def end_with_delivery(cursor: CursorWrapper, message_ids: Iterable[int]) -> None:
    """End the counts of these delivered messages' conversations and addresses (SSB-7)."""
    ids = list(message_ids)
    if ids:
        cursor.execute(_CLEAR_CONVERSATIONS, {"ids": ids})
        cursor.execute(_CLEAR_ADDRESSES, {"ids": ids})
