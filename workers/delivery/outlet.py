"""The way out to one HTTP destination: its queue and its workers."""

import asyncio
from collections.abc import Callable

from poisonadmin.domain.destinations import InvalidDestination
from poisonadmin.domain.failures import Failure
from workers.delivery.deliveries import Delivery, Tally
from workers.delivery.http_destination import HttpDestination
from workers.delivery.http_exchange import Answer, Exchange
from workers.delivery.outcomes import outcome_row
from workers.delivery.run import Run, instant
from workers.delivery.turns import Turns
from workers.delivery.waiting import Waiting


class Outlet:
    """Begins deliveries in the order they are offered, each at its slot, at most `concurrency` at once.

    A worker lives while there is something to begin, so an idle outlet costs nothing.
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
        self._tally = tally
        self._turns = Turns(run, waiting, tally, self._hire)
        self._concurrency = 1 if run.is_isolation else destination.concurrency
        self._workers: set[asyncio.Task[None]] = set()

    def offer(self, delivery: Delivery) -> None:
        """Take a delivery into the queue and begin it as soon as it may be."""
        if self._turns.offer(delivery):
            self._hire()

    def leave_out(self, delivery: Delivery) -> None:
        """Do not take a delivery: there is no room for it."""
        self._turns.leave_out(delivery)

    async def has_room(self) -> bool:
        """Return whether another delivery may be offered, after a short wait for room where there is none."""
        return await self._turns.has_room()

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing is under way."""
        return not (self._workers or self._turns)

    def break_off(self) -> None:
        """Cancel what is under way."""
        for worker in self._workers:
            worker.cancel()

    async def close(self) -> None:
        """Leave alone what waits, wait for what was begun, close the connections."""
        self._turns.clear()
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

    async def _work(self) -> None:
        while self._run.may_begin() and (delivery := self._turns.next()) is not None:
            await self._deliver(delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        run, tally = self._run, self._tally
        if run.is_isolation:
            await run.mark(delivery)
        run.begin(delivery, tally)
        started = instant(run.now())
        answer = await self._answer(delivery)
        finished = instant(run.now())
        row = outcome_row(
            delivery,
            answer,
            claim_id=run.claim_id,
            shard=run.shard,
            times=(started, finished),
            crash_on=self._destination.crash_on,
        )
        run.finish(row, tally, in_transport=answer.failure is not None and answer.status is None)
        self._turns.finished(delivery, row.outcome)

    async def _answer(self, delivery: Delivery) -> Answer:
        if self._destination.broken is not None:
            return Answer(failure=Failure(InvalidDestination.__name__, self._destination.broken))
        if self._exchange is None:
            self._exchange = self._open(self._destination)
        return await self._exchange.post(delivery)
