"""The queue of a sender: begun in the order they were offered, each at its slot, none after it has expired."""

import asyncio
import contextlib
import heapq
import time
from collections import deque
from collections.abc import Callable

from poisonadmin.delivery.domain.claim_plan import LATE_SECONDS
from poisonadmin.messages.domain.outcomes import LETS_FOLLOW, Outcome
from poisonadmin.rules.domain.rules import Before
from workers.delivery.deliveries import Delivery, Tally, row_of_rule
from workers.delivery.run import Run, instant

# How much of what was read may wait in memory, shared evenly between the destinations.
HELD_BYTES = 64 * 1024 * 1024
# A destination that begins nothing for so long keeps the reader, and so the others, waiting no longer.
ROOM_SECONDS = 0.1
_BYTES_PER_DELIVERY = 1024
# How much may be held behind predecessors that are under way.
GROUPED_BYTES = 32 * 1024 * 1024
_AS_ANSWERED = {
    Before.DISCARD: Outcome.DISCARDED,
    Before.REDIRECT: Outcome.MOVED,
    Before.END_CONVERSATION: Outcome.CONVERSATION_ENDED,
}


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


class OrderedGroups:
    """Deliveries that are held behind another one of the same conversation. `len` counts them."""

    def __init__(self) -> None:
        self._held: dict[int, deque[Delivery]] = {}
        self._closed: set[int] = set()
        self._bytes = 0

    def __len__(self) -> int:
        return sum(len(held) for held in self._held.values())

    @property
    def has_room(self) -> bool:
        """True while more may be held."""
        return self._bytes < GROUPED_BYTES

    def is_closed(self, chain: int | None) -> bool:
        """Return whether nothing more is taken of the chain, since one of it was left out."""
        return chain in self._closed

    def admits(self, delivery: Delivery) -> bool:
        """Return whether a delivery may be begun now; else it is held behind the one that is under way."""
        assert delivery.chain is not None
        held = self._held.get(delivery.chain)
        if held is None:
            self._held[delivery.chain] = deque()
            return True
        held.append(delivery)
        self._bytes += len(delivery.payload)
        return False

    def close(self, chain: int) -> None:
        """Take nothing more of the chain; what is held goes on."""
        self._closed.add(chain)

    def following(self, chain: int) -> Delivery | None:
        """Return the delivery that may be begun after one that has arrived."""
        held = self._held.get(chain)
        if held is None:
            return None
        if not held:
            del self._held[chain]
            return None
        following = held.popleft()
        self._bytes -= len(following.payload)
        return following

    def break_off(self, chain: int) -> int:
        """Begin nothing more of the chain; return how many were held."""
        held = self._held.pop(chain, deque())
        self._closed.add(chain)
        self._bytes -= sum(len(delivery.payload) for delivery in held)
        return len(held)


class Scheduler:
    """The queue of one sender. `on_slot` is called in the event loop when the next slot has come.

    Slots keep their distances: when one was used later than timers are, those behind it are late by as much, so that no
    burst makes good for lost time. What would be so late that it fell among the slots of the next claim is left alone:
    its message is released, and gets another slot.
    """

    def __init__(self, run: Run, waiting: Buffer, tally: Tally, on_slot: Callable[[], None]) -> None:
        self._run = run
        self._waiting = waiting
        self._tally = tally
        self._on_slot = on_slot
        self._groups = OrderedGroups()
        self._lag = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._groups)

    def offer(self, delivery: Delivery) -> bool:
        """Take a delivery into the queue; return whether it may be begun at once."""
        if self._groups.is_closed(delivery.chain):
            self._tally.not_begun += 1
            return False
        if delivery.chain is not None and not self._groups.admits(delivery):
            return False
        return self._enqueue(delivery)

    def leave_out(self, delivery: Delivery) -> None:
        """Leave a delivery alone, and what follows it in its chain."""
        self._tally.not_begun += 1
        if delivery.chain is not None:
            self._groups.close(delivery.chain)

    def finished(self, delivery: Delivery, outcome: str | None) -> None:
        """Note that a delivery has an outcome, None for none: then, or when it failed, nothing of its chain follows."""
        if delivery.chain is None:
            return
        lets_follow = outcome in LETS_FOLLOW
        if lets_follow and (following := self._groups.following(delivery.chain)) is not None:
            if self._enqueue(following):
                self._on_slot()
        elif not lets_follow:
            self._tally.not_begun += self._groups.break_off(delivery.chain)

    def _enqueue(self, delivery: Delivery) -> bool:
        if delivery.decision is not None:
            self._finish_unbegun(delivery)
            return False
        self._waiting.add(delivery)
        if delivery.start_at is None:
            return True
        if self._waiting.next_slot() == delivery.start_at:
            self.wait_for_slot()
        return False

    def _finish_unbegun(self, delivery: Delivery) -> None:
        """Have the rule's decision written. What is rejected waits for a person's, and holds what follows it."""
        self._run.finish_unbegun(row_of_rule(self._run, delivery, finished_at=instant(self._run.now())), self._tally)
        assert delivery.decision is not None
        self.finished(delivery, _AS_ANSWERED.get(delivery.decision.action))

    async def has_room(self) -> bool:
        """Return whether another delivery may be offered, after a short wait for room where there is none."""
        return self._groups.has_room and await self._waiting.has_room()

    def next(self) -> Delivery | None:
        """Return what to begin now: a message whose slot has come, else the longest due, else None."""
        while (delivery := self._pop()) is not None and not self._is_wanted(delivery):
            self._tally.not_begun += 1
            self.finished(delivery, None)
        if self._timer is None:
            self.wait_for_slot()
        if delivery is not None:
            self._run.taken.add(delivery.message_id)
        return delivery

    def wait_for_slot(self) -> None:
        """Call `on_slot` when the next slot comes."""
        self.stop_waiting()
        if (slot := self._waiting.next_slot()) is not None:
            wait = slot + self._lag - self._run.now()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wait), self._slot_has_come)

    def stop_waiting(self) -> None:
        """Call `on_slot` no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def clear(self) -> None:
        """Leave alone what waits; it counts as not begun."""
        self.stop_waiting()
        self._tally.not_begun += len(self)
        self._waiting, self._groups = Buffer(0), OrderedGroups()

    def _pop(self) -> Delivery | None:
        slot = self._waiting.next_slot()
        if slot is not None and self._run.now() - slot >= self._lag:
            return self._waiting.take_slotted()
        return self._waiting.take()

    def _is_wanted(self, delivery: Delivery) -> bool:
        if delivery.expires_at is None and delivery.start_at is None:
            return True
        now = self._run.now()
        if delivery.expires_at is not None and now >= delivery.expires_at:
            return False
        if delivery.start_at is not None:
            if delivery.start_before is not None and now >= delivery.start_before:
                return False
            self._lag = max(self._lag, now - delivery.start_at - LATE_SECONDS)
        return True

    def _slot_has_come(self) -> None:
        self._timer = None
        self._on_slot()
