"""What was read and waits to be begun at one destination: those with a slot, and those without."""

import asyncio
import contextlib
import heapq
import time
from collections import deque

from workers.delivery.deliveries import Delivery

# How much of what was read may wait in memory, shared evenly between the destinations.
HELD_BYTES = 64 * 1024 * 1024
# A destination that begins nothing for so long keeps the reader, and so the others, waiting no longer.
ROOM_SECONDS = 0.1
_BYTES_PER_DELIVERY = 1024


class Buffer:
    """Deliveries in the order they were read, and beside them those with a slot, in the order of their slots."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._is_stalled = False
        self._ready: deque[Delivery] = deque()
        self._slotted: list[tuple[float, int, Delivery]] = []
        self._added = 0
        self._taken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready) + len(self._slotted)

    def add(self, delivery: Delivery) -> None:
        """Keep a delivery until it is taken."""
        self._held += _weight(delivery)
        self._added += 1
        if delivery.start_at is None:
            self._ready.append(delivery)
        else:
            heapq.heappush(self._slotted, (delivery.start_at, self._added, delivery))

    def next_slot(self) -> float | None:
        """Return the earliest slot, None when nothing waits for one."""
        return self._slotted[0][0] if self._slotted else None

    def take_slotted(self) -> Delivery:
        """Take the delivery with the earliest slot."""
        return self._released(heapq.heappop(self._slotted)[2])

    def take(self) -> Delivery | None:
        """Take the longest waiting delivery without a slot."""
        return self._released(self._ready.popleft()) if self._ready else None

    async def has_room(self) -> bool:
        """Return whether another delivery may be added, after waiting a moment for room where there is none."""
        deadline = time.monotonic() + (0.0 if self._is_stalled else ROOM_SECONDS)
        while self._held >= self._limit and time.monotonic() < deadline:
            self._taken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._taken.wait(), deadline - time.monotonic())
        self._is_stalled = self._held >= self._limit
        return not self._is_stalled

    def _released(self, delivery: Delivery) -> Delivery:
        self._held -= _weight(delivery)
        self._taken.set()
        return delivery


def _weight(delivery: Delivery) -> int:
    return len(delivery.payload) + _BYTES_PER_DELIVERY
