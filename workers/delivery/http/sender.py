"""The way out to one HTTP destination."""

from collections.abc import Callable

from poisonadmin.destinations.domain.http_config import InvalidDestination
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.messages.domain.outcome import Outcome
from workers.delivery.deliveries import Delivery
from workers.delivery.http.exchange import Exchange, HttpDestination
from workers.delivery.outcomes import attempt_row, fail
from workers.delivery.run import Run, instant
from workers.delivery.scheduler import Buffer
from workers.delivery.sender import Sender


class HttpSender(Sender):
    """Each worker sends one request after the other; they share the connections."""

    def __init__(
        self, run: Run, destination: HttpDestination, open_exchange: Callable[[], Exchange], *, waiting: Buffer
    ) -> None:
        super().__init__(run, destination.id, destination.concurrency, waiting)
        self._destination = destination
        self._open = open_exchange
        self._exchange: Exchange | None = None

    async def close(self) -> None:
        """Wait for what was begun, close the connections."""
        await self._workers_gone()
        if self._exchange is not None:
            await self._exchange.close()

    async def _work(self) -> None:
        while self._may_begin() and (delivery := self._scheduler.next()) is not None:
            await self._deliver(delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        run = self._run
        if run.node.is_isolation:
            await run.node.mark(delivery)
        run.begin(delivery, self._tally)
        now = instant(run.now())
        attempt = attempt_row(run, delivery, Outcome.DELIVERED, (now, now))
        if self._destination.broken is not None:
            fail(attempt, Failure(InvalidDestination.__name__, self._destination.broken))
        else:
            if self._exchange is None:
                self._exchange = self._open()
            await self._exchange.post(delivery, attempt)
        attempt.finished_at = instant(run.now())
        self._finish(delivery, attempt, in_transport=attempt.error_class is not None and attempt.status_code is None)
