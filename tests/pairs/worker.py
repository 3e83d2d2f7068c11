"""A worker in this process: it claims, begins each message at its slot, has it answered, and settles.

It is one node with one delivery under way at a time. What it notes of each beginning is what a receiver would see.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.delivery.commands.claim import ClaimRef, claim_due, claim_isolated, seconds_until_due
from poisonadmin.delivery.commands.settle import settle
from tests.fixtures.delivery import answer, end_nodes

# What is claimed and not begun goes back after so long, as a node's budget says.
BUDGET_SECONDS = 2.0
# Nothing happens for so long: what still waits, waits for a person.
QUIET_SECONDS = 0.6

_CLAIMED = """
SELECT message.id, message.operation_id, envelope.conversation_id, extract(epoch FROM start_at)::float8
FROM claim_shard CROSS JOIN LATERAL unnest(message_ids) WITH ORDINALITY AS taken (id, place)
     JOIN message ON message.id = taken.id AND message.claim_id = claim_shard.claim_id AND message.state = 'DLNG'
     JOIN envelope ON envelope.id = message.id
WHERE claim_shard.claim_id = %(claim)s ORDER BY claim_shard.shard, place
"""
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


@dataclass(frozen=True)
class Beginning:
    """A delivery that began: at what time (Unix seconds), by which operation, and whether as a candidate alone."""

    at: float
    message: int
    operation: int | None
    is_alone: bool


@dataclass
class Worker:
    """`answers`: the outcome of a message, and its columns. `on_begin` is called while the message is under way.

    `is_ordered`: of a conversation nothing follows what was not delivered.
    """

    answers: Callable[[int], tuple[str, Mapping[str, object]]]
    on_begin: Callable[[Beginning], None]
    is_ordered: bool = False
    stops: bool = False  # the node is told to begin nothing more of its claim
    begun: list[Beginning] = field(default_factory=list)

    def work(self, *, carries_on: bool = True) -> None:
        """Deliver until nothing has happened for a while."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_SECONDS:
            if carries_on:
                carry_on()
            taken = claim_isolated() or claim_due(tasks=1)
            if taken is not None:
                if self._deliver(taken):
                    quiet_since = time.monotonic()
                continue
            due_in = seconds_until_due()
            if due_in is None or due_in > QUIET_SECONDS:
                break
            time.sleep(0.02)
        settle()
        carry_on()

    def _deliver(self, taken: ClaimRef) -> int:
        """Deliver a claim; return how many began."""
        rows = fetch_rows(_CLAIMED, {"claim": taken.id})
        until = time.monotonic() + BUDGET_SECONDS
        offset = fetch_rows(_NOW, {})[0][0] - time.monotonic()
        stopped: set[str] = set()
        before = len(self.begun)
        for message, operation, conversation, start_at in sorted(rows, key=_slot):
            if start_at is not None:
                time.sleep(max(0.0, min(start_at - offset, until) - time.monotonic()))
            if self.stops or time.monotonic() >= until:
                break
            if conversation in stopped:
                continue
            one = Beginning(time.monotonic() + offset, message, operation, taken.is_isolation)
            self.begun.append(one)
            self.on_begin(one)
            outcome, columns = self.answers(message)
            answer([message], outcome, **columns)
            if self.is_ordered and conversation is not None and outcome != "delivered":
                stopped.add(conversation)
        self.stops = False
        end_nodes(taken)
        settle()
        return len(self.begun) - before


def _slot(row: Sequence[float | None]) -> float:
    """Return the time at which a row's message is to begin; stable for those without."""
    return row[3] or 0.0
