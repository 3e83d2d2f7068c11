"""What all destinations of one run share: its clock, its end, its counts, and where outcomes go."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from workers.delivery.deliveries import Delivery, OutcomeRow, Tally

# What was read and waits for its turn is held in memory, up to this; beyond it the reader waits.
HELD_BYTES = 64 * 1024 * 1024
# A destination that takes nothing for so long keeps the others waiting no longer.
ROOM_SECONDS = 0.1
_BYTES_PER_DELIVERY = 1024


class Flag(Protocol):
    """Something like threading.Event or multiprocessing.Event."""

    def is_set(self) -> bool:
        """Return whether it is set."""


def weight(delivery: Delivery) -> int:
    """Return about how many bytes a waiting delivery takes."""
    return len(delivery.payload) + _BYTES_PER_DELIVERY


@dataclass(slots=True)
class Run:
    """The state of one call of `deliver_all`.

    Wall-clock times are the caller's (the database's): `offset` is read once, so that a step of this machine's clock
    in the middle moves nothing.
    """

    start_deadline: Callable[[], float]
    stop: Flag
    record: Callable[[OutcomeRow], None]
    began: Callable[[Delivery], None] | None
    claim_id: int | None
    shard: int | None
    offset: float
    tallies: dict[int, Tally] = field(default_factory=dict)
    held: int = 0
    is_over: bool = False
    is_stalled: bool = False
    error: BaseException | None = None
    room: asyncio.Event = field(default_factory=asyncio.Event)
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

    async def has_room(self) -> bool:
        """Wait a moment for held deliveries to be begun when there are too many; return whether another one fits."""
        patience = 0.0 if self.is_stalled else ROOM_SECONDS
        deadline = time.monotonic() + patience
        while self.held >= HELD_BYTES and time.monotonic() < deadline:
            self.room.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.room.wait(), deadline - time.monotonic())
        self.is_stalled = self.held >= HELD_BYTES
        return not self.is_stalled

    def tally(self, destination_id: int) -> Tally:
        """Return the counts of a destination."""
        return self.tallies.setdefault(destination_id, Tally())

    def write(self, row: OutcomeRow) -> None:
        """Hand an outcome on. When that fails nothing more is begun and `deliver_all` raises what happened."""
        try:
            self.record(row)
        except BaseException as error:
            self.error = self.error or error


def instant(seconds: float) -> datetime:
    """Return Unix seconds as an aware time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
