"""The way out to one destination: its queue, its slots, its workers."""

import asyncio
from collections.abc import Callable

from poisonadmin.domain.destinations import InvalidDestination
from poisonadmin.domain.failures import Failure
from workers.delivery.deliveries import Delivery, Tally
from workers.delivery.http_destination import HttpDestination
from workers.delivery.http_exchange import Answer, Exchange
from workers.delivery.outcomes import outcome_row
from workers.delivery.run import Run, instant
from workers.delivery.waiting import Waiting

# A slot that was missed by more than this is not used: its message is released and gets another one.
MAX_LAG_SECONDS = 1.0


class Outlet:
    """Begins deliveries in the order they are offered, each at its slot, at most `concurrency` at once.

    Slots keep their distances: when one was used late, those behind it are late by as much, so that no burst makes
    good for lost time. A worker lives while there is something to begin, so an idle outlet costs nothing.
    """

    def __init__(
        self,
        run: Run,
        destination: HttpDestination,
        open_exchange: Callable[[HttpDestination], Exchange],
        *,
        tally: Tally,
        waiting: Waiting,
    ) -> None:
        self._run = run
        self._destination = destination
        self._open = open_exchange
        self._exchange: Exchange | None = None
        self._concurrency = destination.concurrency
        self._tally = tally
        self._waiting = waiting
        self._lag = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._workers: set[asyncio.Task[None]] = set()

    def offer(self, delivery: Delivery) -> None:
        """Take a delivery into the queue and begin it as soon as it may be."""
        self._waiting.add(delivery)
        if delivery.start_at is None:
            self._hire()
        elif self._waiting.next_slot() == delivery.start_at:
            self._wait_for_slot()

    async def has_room(self) -> bool:
        """Return whether another delivery may be offered, after a short wait for room where there is none."""
        return await self._waiting.has_room()

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing is under way."""
        return not (self._workers or self._waiting)

    def break_off(self) -> None:
        """Cancel what is under way."""
        for worker in self._workers:
            worker.cancel()

    async def close(self) -> None:
        """Leave alone what waits, wait for what was begun, close the connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._tally.not_begun += len(self._waiting)
        self._waiting = Waiting(0)
        if self._workers:
            await asyncio.wait(self._workers)
        if self._exchange is not None:
            await self._exchange.close()

    def _hire(self) -> None:
        if len(self._workers) < self._concurrency and self._run.may_begin():
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._dismiss)

    def _dismiss(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._run.error = self._run.error or error
        if self.is_idle:
            self._run.quiet.set()
        elif self._timer is None:
            self._wait_for_slot()

    async def _work(self) -> None:
        while self._run.may_begin() and (delivery := self._next()) is not None:
            if self._timer is None:
                self._wait_for_slot()
            await self._deliver(delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        run, tally = self._run, self._tally
        if run.began is not None:
            run.began(delivery)
        tally.begun += 1
        started = instant(run.now())
        answer = await self._answer(delivery)
        finished = instant(run.now())
        if answer.failure is None:
            tally.delivered += 1
        else:
            tally.failed += 1
            tally.transport_failures += answer.status is None
        run.write(outcome_row(delivery, answer, claim_id=run.claim_id, shard=run.shard, times=(started, finished)))

    async def _answer(self, delivery: Delivery) -> Answer:
        if self._destination.broken is not None:
            return Answer(failure=Failure(InvalidDestination.__name__, self._destination.broken))
        if self._exchange is None:
            self._exchange = self._open(self._destination)
        return await self._exchange.post(delivery)

    def _next(self) -> Delivery | None:
        """Return what to begin now: a message whose slot has come, else the longest due, else None."""
        while (delivery := self._pop()) is not None:
            if self._is_wanted(delivery):
                return delivery
            self._tally.not_begun += 1
        return None

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

    def _wait_for_slot(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (slot := self._waiting.next_slot()) is not None:
            wait = slot + self._lag - self._run.now()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wait), self._slot_has_come)

    def _slot_has_come(self) -> None:
        self._timer = None
        self._hire()
