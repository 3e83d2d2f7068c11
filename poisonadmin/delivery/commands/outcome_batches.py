"""Batches of messages whose attempts are written and not settled yet."""

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.queries.sql import raw

MESSAGES_A_TRANSACTION = 5_000

# Taken oldest first, so that counts which go over several messages are counted in the order of their attempts.
_TAKE = """
SELECT coalesce(array_agg(id), '{}'), coalesce(sum(size), 0)::int FROM (
    SELECT id, cardinality(message_ids) AS size, sum(cardinality(message_ids)) OVER (ORDER BY id) AS total
    FROM outcome_batch WHERE claim_id = %(claim)s
) AS batch WHERE total - size < %(messages)s
"""
_HAS = "SELECT EXISTS (SELECT FROM outcome_batch WHERE claim_id = %(claim)s)"
_DELETE = "DELETE FROM outcome_batch WHERE id = ANY(%(batches)s)"

# Messages of the batches that were delivered, and by which attempt.
DELIVERED = """
SELECT * FROM (SELECT unnest(message_ids) AS id, unnest(delivered) AS attempt_number
               FROM outcome_batch WHERE id = ANY(%(batches)s)) AS answered WHERE attempt_number IS NOT NULL
"""

# An element of FROM: each of their other messages once. A message may be in two batches: written by a node that was
# taken for dead, and by whoever took it for dead.
NOT_DELIVERED = raw("""
(SELECT DISTINCT message_id
 FROM (SELECT unnest(message_ids) AS message_id, unnest(delivered) AS attempt_number
       FROM outcome_batch WHERE id = ANY(%(batches)s)) AS written WHERE attempt_number IS NULL) AS answered
""")


def take_batches(cursor: CursorWrapper, claim_id: int, messages: int = MESSAGES_A_TRANSACTION) -> tuple[list[int], int]:
    """Return the ids of the claim's oldest batches, of about so many `messages`, and how many messages they name.

    Call with the claim's SETTLE lock held.
    """
    cursor.execute(_TAKE, {"claim": claim_id, "messages": messages})
    batches, size = cursor.fetchone()
    return batches, size


def has_batches(cursor: CursorWrapper, claim_id: int) -> bool:
    """Return whether the claim has batches: more than were taken, or some that were written meanwhile."""
    cursor.execute(_HAS, {"claim": claim_id})
    return bool(cursor.fetchone()[0])


def delete_batches(cursor: CursorWrapper, batches: list[int]) -> None:
    """Forget batches that are settled, in the same transaction."""
    cursor.execute(_DELETE, {"batches": batches})
