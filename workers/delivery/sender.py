"""The way out to one destination: its queue, and workers that live while there is something to begin."""

import asyncio
from abc import ABC, abstractmethod

from poisonadmin.messages.domain.attempt import AttemptRecord
from workers.delivery.deliveries import Delivery
from workers.delivery.run import Run
from workers.delivery.scheduler import Buffer, Scheduler


class Sender(ABC):
    """Begins deliveries in the order they are offered, each at its slot, with at most `concurrency` workers.

    In isolation with one, so that candidates come one after the other. An idle sender costs nothing.
    """

    def __init__(self, run: Run, destination_id: int, concurrency: int, waiting: Buffer) -> None:
        self._run = run
        self._tally = run.tally(destination_id)
        self._scheduler = Scheduler(run, waiting, self._tally, self._hire)
        self._concurrency = 1 if run.node.is_isolation else concurrency
        self._workers: set[asyncio.Task[None]] = set()

    def offer(self, delivery: Delivery) -> None:
        """Take a delivery into the queue and begin it as soon as it may be."""
        if self._scheduler.offer(delivery):
            self._hire()

    def leave_out(self, delivery: Delivery) -> None:
        """Do not take a delivery: there is no room for it."""
        self._scheduler.leave_out(delivery)

    async def has_room(self) -> bool:
        """Return whether another delivery may be offered, after a short wait for room where there is none."""
        return await self._scheduler.has_room()

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing is under way."""
        return not (self._workers or self._scheduler)

    def break_off(self) -> None:
        """Break off what is under way; it has no outcome."""
        for worker in self._workers:
            worker.cancel()

    def leave_alone(self) -> None:
        """Leave alone what waits: nothing more of it may be begun."""
        self._scheduler.clear()

    @abstractmethod
    async def close(self) -> None:
        """Wait for what was begun, let go of everything."""

    @abstractmethod
    async def _work(self) -> None:
        """Begin one delivery after the other until nothing waits or nothing more may be begun."""

    def _finish(self, delivery: Delivery, row: AttemptRecord, *, in_transport: bool = False) -> None:
        self._run.finish(row, self._tally, in_transport=in_transport)
        self._scheduler.finished(delivery, row.outcome)

    def _may_begin(self) -> bool:
        return self._run.may_begin()

    async def _workers_gone(self) -> None:
        if self._workers:
            await asyncio.wait(self._workers)

    def _hire(self) -> None:
        if len(self._workers) < self._concurrency and self._may_begin():
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._dismiss)

    def _dismiss(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._run.error = self._run.error or error
        if self.is_idle:
            self._run.quiet.set()
