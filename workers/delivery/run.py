"""What all destinations of one run share: its clock, its end, its counts, and where outcomes go."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from workers.delivery.deliveries import Delivery, OutcomeRow, Tally


class Flag(Protocol):
    """Something like threading.Event or multiprocessing.Event."""

    def is_set(self) -> bool:
        """Return whether it is set."""


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

    def write(self, row: OutcomeRow) -> None:
        """Hand an outcome on. When that fails nothing more is begun and `deliver_all` raises what happened."""
        try:
            self.record(row)
        except BaseException as error:
            self.error = self.error or error


def instant(seconds: float) -> datetime:
    """Return Unix seconds as an aware time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
