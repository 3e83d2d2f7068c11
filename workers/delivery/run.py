"""What all destinations of one run share: its clock, its end, its counts, and where outcomes go."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from poisonadmin.delivery.domain.attempt import AttemptRecord
from poisonadmin.delivery.domain.outcome import Outcome
from workers.delivery.deliveries import Delivery, Tally


async def _no_mark(delivery: Delivery) -> None:
    """Do nothing: what is not delivered in isolation needs no mark."""


class Flag(Protocol):
    """Something like threading.Event or multiprocessing.Event."""

    def is_set(self) -> bool:
        """Return whether it is set."""


@dataclass(frozen=True)
class NodeSide:
    """What the delivering node gives a run beside its deadline. Left out: a run on its own, with nothing to isolate.

    `pages`: where its sandboxes have their pages. `is_isolation`: these are candidates, delivered one after the other,
    `mark` awaited before each. `lease_deadline`: the `time.monotonic()` after which nothing may begin, however much is
    left to do. `written`: how many of the recorded outcomes the database has; None: all of them.
    """

    node_id: int = 0
    pages: Path = Path()
    is_isolation: bool = False
    lease_deadline: Callable[[], float] = lambda: float("inf")
    mark: Callable[[Delivery], Awaitable[None]] = _no_mark
    written: Callable[[], int] | None = None


@dataclass(slots=True)
class Run:
    """The state of one call of `deliver_all`.

    Wall-clock times are the caller's (the database's): `offset` is read once, so that a step of this machine's clock
    in the middle moves nothing.
    """

    start_deadline: Callable[[], float]
    stop: Flag
    record: Callable[[AttemptRecord], None]
    began: Callable[[Delivery], None] | None
    claim_id: int | None
    shard: int | None
    offset: float
    node: NodeSide = NodeSide()
    recorded: int = 0
    tallies: dict[int, Tally] = field(default_factory=dict)
    # Messages that were taken from a queue, to be begun.
    taken: set[int] = field(default_factory=set)
    # Of all destinations: the files of sandboxes are named by their node and this.
    sandbox_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    is_over: bool = False
    error: BaseException | None = None
    quiet: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self) -> float:
        """Return the caller's time in Unix seconds."""
        return time.monotonic() + self.offset

    def may_begin(self) -> bool:
        """Return whether another delivery may be begun; asked before each, for the lease may move or be revoked.

        Once it was False it stays so: some workers have gone home.
        """
        if not self.is_over:
            self.is_over = self.error is not None or self.stop.is_set() or time.monotonic() >= self.start_deadline()
        return not self.is_over

    def tally(self, destination_id: int) -> Tally:
        """Return the counts of a destination."""
        return self.tallies.setdefault(destination_id, Tally())

    def begin(self, delivery: Delivery, tally: Tally) -> None:
        """Note that the delivery is begun."""
        if self.began is not None:
            self.began(delivery)
        tally.begun += 1

    def finish(self, row: AttemptRecord, tally: Tally, *, in_transport: bool = False) -> None:
        """Hand the outcome of a begun delivery on. When that fails nothing more is begun, and `deliver_all` raises."""
        if row.outcome == Outcome.DELIVERED:
            tally.delivered += 1
        else:
            tally.failed += 1
            tally.transport_failures += in_transport
        self._hand_on(row)

    def rule(self, row: AttemptRecord, tally: Tally) -> None:
        """Hand the outcome on of a delivery that is not begun, since a content rule has decided."""
        tally.ruled += 1
        self._hand_on(row)

    def written(self) -> int:
        """Return how many of the recorded outcomes the database has."""
        return self.recorded if self.node.written is None else self.node.written()

    def _hand_on(self, row: AttemptRecord) -> None:
        self.recorded += 1
        try:
            self.record(row)
        except BaseException as error:
            self.error = self.error or error


def instant(seconds: float) -> datetime:
    """Return Unix seconds as an aware time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
