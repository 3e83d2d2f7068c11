"""What was written of a claim and is not settled yet: batches of messages, each written with its attempts."""

from django.db.backends.utils import CursorWrapper

MESSAGES_A_TRANSACTION = 5_000

# Taken oldest first, so that counts which go over several messages are counted in the order of their attempts.
_TAKE = """
SELECT coalesce(array_agg(id), '{}'), coalesce(sum(size), 0)::int FROM (
    SELECT id, cardinality(message_ids) AS size, sum(cardinality(message_ids)) OVER (ORDER BY id) AS total
    FROM outcome_batch WHERE claim_id = %(claim)s
) AS batch WHERE total - size < %(messages)s
"""
_DELETE = "DELETE FROM outcome_batch WHERE id = ANY(%(batches)s)"

# An element of FROM: each message of the batches once. A message may be in two: written by a node that was taken for
# dead, and by whoever took it for dead.
ANSWERED = """
(SELECT DISTINCT unnest(message_ids) AS message_id FROM outcome_batch WHERE id = ANY(%(batches)s)) AS answered
"""


def take_batches(cursor: CursorWrapper, claim_id: int, messages: int = MESSAGES_A_TRANSACTION) -> tuple[list[int], int]:
    """Return the ids of the claim's oldest batches, of about so many `messages`, and how many messages they name.

    Call with the claim's SETTLE lock held.
    """
    cursor.execute(_TAKE, {"claim": claim_id, "messages": messages})
    batches, size = cursor.fetchone()
    return batches, size


def delete_batches(cursor: CursorWrapper, batches: list[int]) -> None:
    """Forget batches that are settled, in the same transaction."""
    cursor.execute(_DELETE, {"batches": batches})
