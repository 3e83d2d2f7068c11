"""A run: the clock, the end and the counts that all destinations of one call of `deliver_all` share."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcomes import Outcome
from workers.delivery.deliveries import Delivery, RunIdentity, Tally


class DeliveryNode(Protocol):
    """The node that a run delivers for: its shard, its clock and its right to begin, and where outcomes go.

    `is_isolation`: the deliveries are candidates, begun one after the other. `journals`: the directory in which its
    sandboxes have their journals.
    """

    @property
    def id(self) -> int: ...
    @property
    def claim_id(self) -> int | None: ...
    @property
    def shard(self) -> int | None: ...
    @property
    def is_isolation(self) -> bool: ...
    @property
    def journals(self) -> Path: ...

    def now(self) -> float:
        """Return the time by which `start_at` and `expires_at` are meant (the database's), in Unix seconds."""

    def is_stopping(self) -> bool:
        """Return whether nothing more may begin."""

    def start_deadline(self) -> float:
        """Return the `time.monotonic()` after which no delivery may begin."""

    def lease_deadline(self) -> float:
        """Return the `time.monotonic()` after which not even a handler may begin, however much is left to do."""

    async def mark(self, delivery: Delivery) -> None:
        """Write down that a candidate is about to begin."""

    def begin(self, deliveries: Sequence[Delivery]) -> None:
        """Note what is about to be sent to a destination, or what a handler has begun."""

    def record(self, attempt: AttemptRecord) -> None:
        """Take an outcome; called in the event loop. An error ends the run."""

    def written(self) -> int:
        """Return how many of the recorded outcomes the database has."""

    def count_sandboxes(self, destination_id: int, count: Callable[[], int]) -> None:
        """Learn how to count the sandboxes of a handler that live or are about to, from whatever thread."""

    def nothing_more_begins(self, taken: Set[int], beginning: Set[int]) -> None:
        """Learn that nothing but `taken` begins any more, but at the destinations in `beginning`."""


@dataclass(slots=True)
class Run(RunIdentity):
    """The state of one call of `deliver_all`.

    Wall-clock times are the node's (the database's): `offset` is read once, so that a step of this machine's clock in
    the middle moves nothing.
    """

    node: DeliveryNode
    recorded: int = 0
    tallies: dict[int, Tally] = field(default_factory=dict)
    # Messages that were taken from a queue, to be begun.
    taken: set[int] = field(default_factory=set)
    # Handlers, which may begin for longer than the run lasts: the import of a module may take as long.
    beginning: set[int] = field(default_factory=set)
    # Of all destinations: the files of sandboxes are named by their node and this.
    sandbox_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    is_over: bool = False
    error: BaseException | None = None
    quiet: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> float:
        """Return the node's time in Unix seconds."""
        return time.monotonic() + self.offset

    def may_begin(self) -> bool:
        """Return whether another delivery may be begun; asked before each, for the lease may move or be revoked.

        Once it was False it stays so: some workers have gone home.
        """
        if not self.is_over:
            node = self.node
            self.is_over = self.error is not None or node.is_stopping() or time.monotonic() >= node.start_deadline()
        return not self.is_over

    def tally(self, destination_id: int) -> Tally:
        """Return the counts of a destination."""
        return self.tallies.setdefault(destination_id, Tally())

    def begin(self, deliveries: Sequence[Delivery], tally: Tally) -> None:
        """Note that these are begun. Errors: `OSError` when that could not be; then they are not."""
        self.node.begin(deliveries)
        tally.begun += len(deliveries)

    def finish(self, row: AttemptRecord, tally: Tally, *, in_transport: bool = False) -> None:
        """Hand the outcome of a begun delivery on. When that fails nothing more is begun, and `deliver_all` raises."""
        tally.seconds += (row.finished_at - (row.started_at or row.finished_at)).total_seconds()
        if row.outcome == Outcome.DELIVERED:
            tally.delivered += 1
        else:
            tally.failed += 1
            tally.transport_failures += in_transport
        self._hand_on(row)

    def finish_unbegun(self, row: AttemptRecord, tally: Tally) -> None:
        """Hand the outcome on of a delivery that is not begun, since a content rule has decided."""
        tally.ruled += 1
        self._hand_on(row)

    def _hand_on(self, row: AttemptRecord) -> None:
        self.recorded += 1
        try:
            self.node.record(row)
        except BaseException as error:
            self.error = self.error or error


def instant(seconds: float) -> datetime:
    """Return Unix seconds as an aware time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
