"""What an outlet begins next: in the order it was offered, each at its slot, none after it has expired."""

import asyncio
from collections.abc import Callable

from poisonadmin.delivery.domain.outcome import LETS_FOLLOW, Outcome
from poisonadmin.rules.domain.rules import Before
from workers.delivery.buffer import Buffer
from workers.delivery.deliveries import Delivery, Tally
from workers.delivery.ordered_groups import OrderedGroups
from workers.delivery.outcomes import ruled_row
from workers.delivery.run import Run, instant

# A slot that was missed by more than this is not used: its message is released and gets another one.
MAX_LAG_SECONDS = 1.0
_AS_ANSWERED = {Before.DISCARD: Outcome.DISCARDED, Before.REDIRECT: Outcome.MOVED}


class Scheduler:
    """The queue of one outlet. `on_slot` is called in the event loop when the next slot has come.

    Slots keep their distances: when one was used late, those behind it are late by as much, so that no burst makes
    good for lost time.
    """

    def __init__(self, run: Run, waiting: Buffer, tally: Tally, on_slot: Callable[[], None]) -> None:
        self._run = run
        self._waiting = waiting
        self._tally = tally
        self._on_slot = on_slot
        self._chains = OrderedGroups()
        self._lag = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._chains)

    def offer(self, delivery: Delivery) -> bool:
        """Take a delivery into the queue; return whether it may be begun at once."""
        if self._chains.is_closed(delivery.chain):
            self._tally.not_begun += 1
            return False
        if delivery.chain is not None and not self._chains.admits(delivery):
            return False
        return self._enqueue(delivery)

    def leave_out(self, delivery: Delivery) -> None:
        """Leave a delivery alone, and what follows it in its chain."""
        self._tally.not_begun += 1
        if delivery.chain is not None:
            self._chains.close(delivery.chain)

    def finished(self, delivery: Delivery, outcome: str | None) -> None:
        """Note that a delivery has an outcome, None for none: then, or when it failed, nothing of its chain follows."""
        if delivery.chain is None:
            return
        lets_follow = outcome in LETS_FOLLOW
        if lets_follow and (following := self._chains.following(delivery.chain)) is not None:
            if self._enqueue(following):
                self._on_slot()
        elif not lets_follow:
            self._tally.not_begun += self._chains.break_off(delivery.chain)

    def _enqueue(self, delivery: Delivery) -> bool:
        if delivery.ruling is not None:
            self._rule(delivery)
            return False
        self._waiting.add(delivery)
        if delivery.start_at is None:
            return True
        if self._waiting.next_slot() == delivery.start_at:
            self.wait_for_slot()
        return False

    def _rule(self, delivery: Delivery) -> None:
        """Have the ruling written. What is rejected waits for a decision, and holds what follows in its chain."""
        run = self._run
        run.rule(
            ruled_row(delivery, claim_id=run.claim_id, shard=run.shard, finished_at=instant(run.now())), self._tally
        )
        assert delivery.ruling is not None
        self.finished(delivery, _AS_ANSWERED.get(delivery.ruling.action))

    async def has_room(self) -> bool:
        """Return whether another delivery may be offered, after a short wait for room where there is none."""
        return self._chains.has_room and await self._waiting.has_room()

    def next(self) -> Delivery | None:
        """Return what to begin now: a message whose slot has come, else the longest due, else None."""
        while (delivery := self._pop()) is not None and not self._is_wanted(delivery):
            self._tally.not_begun += 1
            self.finished(delivery, None)
        if self._timer is None:
            self.wait_for_slot()
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
        self._waiting, self._chains = Buffer(0), OrderedGroups()

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
            if now - delivery.start_at > MAX_LAG_SECONDS:
                return False
            self._lag = max(self._lag, now - delivery.start_at)
        return True

    def _slot_has_come(self) -> None:
        self._timer = None
        self._on_slot()
