"""The way out to one broker: whole batches, each on a connection of its own, delivered only when confirmed."""

import asyncio
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import orjson

from poisonadmin.brokers.domain.broker_kinds import DESTINATION_DEFAULTS
from poisonadmin.brokers.domain.brokers import validate_broker_destination
from poisonadmin.delivery.domain.window import TRANSPORT_CAUSES
from poisonadmin.destinations.domain.http_config import InvalidDestination
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.messages.domain.outcomes import Outcome
from workers.brokers.contract import Login, Outgoing, Publisher, adapter
from workers.delivery.deliveries import ConfiguredDestination, Delivery, TaskDestination, attempt_row, fail
from workers.delivery.run import Run, instant
from workers.delivery.scheduler import Buffer
from workers.delivery.sender import Sender

_NOBODY = Login("")
Results = Sequence[Failure | None]


@dataclass(frozen=True)
class BrokerDestination(TaskDestination):
    """A broker to publish to. `connections`: at once in this task; `batch`: messages published at once on each.

    `redirect`: the queue or topic for all; None: each goes to where it came from.
    """

    kind: str = ""
    login: Login = field(default=_NOBODY, repr=False)
    redirect: str | None = None
    batch: int = 500
    connections: int = 1
    timeout_seconds: float = 30.0


def parse_broker_config(row: ConfiguredDestination) -> BrokerDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used.

    The slots are messages that may be under way.
    """
    wanted: dict[str, Any] = {
        **DESTINATION_DEFAULTS[row.kind],
        **validate_broker_destination(row.kind, row.config),
    }
    hidden = row.secrets or {}
    batch = wanted["batch"] if row.slots is None else min(wanted["batch"], max(row.slots, 1))
    return BrokerDestination(
        row.id,
        row.name,
        kind=row.kind,
        login=Login(wanted["url"], hidden.get("username", ""), hidden.get("password", ""), wanted),
        redirect=wanted.get("queue") or wanted.get("topic"),
        batch=batch,
        connections=wanted["concurrency"] if row.slots is None else -(-max(row.slots, 1) // batch),
        timeout_seconds=wanted["timeout_ms"] / 1000,
    )


def _outgoing(delivery: Delivery, to: BrokerDestination) -> Outgoing:
    """Return the message as its publisher takes it, on its way back or to the destination's redirect."""
    transport = orjson.loads(delivery.transport) if delivery.transport else None
    return Outgoing(
        payload=delivery.payload,
        content_type=delivery.content_type,
        headers=delivery.headers,
        own_headers={
            "PoisonAdmin-Message-Id": str(delivery.message_id),
            "PoisonAdmin-Attempt": str(delivery.attempt_number),
        },
        route=_route(delivery, to, transport),
        message_id=delivery.producer_message_id,
        conversation_id=delivery.conversation_id,
        transport=transport,
    )


def _route(delivery: Delivery, to: BrokerDestination, transport: Mapping[str, Any] | None) -> str:
    """Return the redirect, else where this broker once had the message, else its address.

    Empty where the broker's own routing leads back: only exchange and key are known of it.
    """
    if to.redirect is not None:
        return to.redirect
    if transport is None or transport.get("broker") != to.kind:
        return delivery.address
    if original := transport.get("queue") or transport.get("topic"):
        return str(original)
    return "" if transport.get("exchange") else delivery.address


class BrokerSender(Sender):
    """Each worker publishes one batch after the other; in isolation a batch is one message."""

    def __init__(self, run: Run, destination: BrokerDestination, *, waiting: Buffer) -> None:
        super().__init__(run, destination.id, destination.connections, waiting)
        self._to = destination
        self._batch = 1 if run.node.is_isolation else destination.batch
        self._idle: list[_Connection] = []
        self._opened: list[_Connection] = []

    async def close(self) -> None:
        """Wait for what was begun, close the connections."""
        await self._workers_gone()
        await asyncio.gather(*(connection.close() for connection in self._opened))

    async def _work(self) -> None:
        connection = self._idle.pop() if self._idle else self._open()
        try:
            while self._may_begin() and (some := self._next_batch()):
                await self._deliver(connection, some)
        finally:
            self._idle.append(connection)

    def _open(self) -> "_Connection":
        connection = _Connection(self._to)
        self._opened.append(connection)
        return connection

    def _next_batch(self) -> list[Delivery]:
        """Return what may be begun now, as much as goes into a batch; of a chain only the first."""
        some: list[Delivery] = []
        while len(some) < self._batch and (delivery := self._scheduler.next()) is not None:
            some.append(delivery)
        return some

    async def _deliver(self, connection: "_Connection", some: Sequence[Delivery]) -> None:
        run = self._run
        if run.node.is_isolation:
            await run.node.mark(some[0])
        run.begin(some, self._tally)
        started = instant(run.now())
        results = await self._answers(connection, some)
        times = (started, instant(run.now()))
        for delivery, failure in zip(some, results, strict=True):
            attempt = attempt_row(run, delivery, Outcome.DELIVERED, times)
            if failure is not None:
                fail(attempt, failure)
            self._finish(delivery, attempt, in_transport=attempt.error_class in TRANSPORT_CAUSES)

    async def _answers(self, connection: "_Connection", some: Sequence[Delivery]) -> Results:
        if self._to.broken is not None:
            return [Failure(InvalidDestination.__name__, self._to.broken)] * len(some)
        return await connection.publish(some)


class _Connection:
    """A publisher and the one thread that uses it."""

    def __init__(self, to: BrokerDestination) -> None:
        self._to = to
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"publish-{to.id}")
        self._publisher: Publisher | None = None

    async def publish(self, some: Sequence[Delivery]) -> Results:
        """Return place by place None, or why the message is not confirmed."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._publish, some)

    async def close(self) -> None:
        """Close the connection; when its thread is still at work, as soon as it ends."""
        closing = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        await asyncio.wait([asyncio.wrap_future(closing)], timeout=1.0)

    def _publish(self, some: Sequence[Delivery]) -> Results:
        try:
            if self._publisher is None:
                self._publisher = adapter(self._to.kind).open_publisher(self._to.login)
            batch = [_outgoing(delivery, self._to) for delivery in some]
            return self._publisher.publish(batch, self._to.timeout_seconds)
        except Exception as error:
            # Ours, or a library's: the messages must not go round for ever because of it, nor the others wait.
            text = f"{type(error).__name__}: {error}"[:300]
            return [Failure(type(error).__qualname__, text, stack=traceback.format_exc())] * len(some)

    def _close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
