"""The result of reading a broker's queues once, as the tasks report it."""

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of draining a shard, or all of a source. All that is counted is stored and committed.

    `staged`: messages that wait for the merge; `recognised`: deliveries of messages that were stored before, by their
    receipts; `rejected`: set aside as `rejected_line`. `is_empty`: it was read until nothing more came, and all of it
    was acknowledged. `error`: what ended it early, for administrators, without a secret.
    """

    staged: int = 0
    recognised: int = 0
    rejected: int = 0
    is_empty: bool = True
    error: str | None = None

    def __add__(self, other: "Drained") -> "Drained":
        return Drained(
            self.staged + other.staged,
            self.recognised + other.recognised,
            self.rejected + other.rejected,
            self.is_empty and other.is_empty,
            self.error or other.error,
        )


def batch_prefix(source_id: int) -> str:
    """Return how the names of all batches begin that are staged of a source.

    >>> batch_prefix(7)
    'broker:7:'
    """
    return f"broker:{source_id}:"


def later_batch(source_id: int) -> str:
    """Return the name of a new batch for messages that came back before the outcome of their delivery is settled."""
    return f"{batch_prefix(source_id)}later:{uuid.uuid4()}"


def is_for_later(batch: str) -> bool:
    """Return whether a batch is of messages that came back before the outcome of their delivery was settled."""
    return ":later:" in batch
