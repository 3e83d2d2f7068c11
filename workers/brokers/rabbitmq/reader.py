"""Reads one queue of RabbitMQ as a consumer that acknowledges what is stored, many messages at a time."""

import contextlib
import struct
import time
from collections.abc import Sequence

from pika import spec

from workers.brokers.contract import READ_BYTES, BrokerError, Incoming, Login
from workers.brokers.rabbitmq.connection import CHANNEL, AmqpConnection
from workers.brokers.rabbitmq.messages import incoming_of

# Two batches are stored and acknowledged while a third is read.
PREFETCH = 6000
_ACK = struct.Struct(">BHIHHQBB")
_ACK_BYTES = 13
_TAG = "poisonadmin"


class RabbitMqReader:
    """A consumer of one queue; see contract.Reader."""

    def __init__(self, login: Login, queue: str) -> None:
        self._queue = queue
        self._connection = AmqpConnection(login)
        self._unsettled: set[int] = set()
        self._is_finished = False
        try:
            self._qos()
            self._connection.call(spec.Basic.Consume(queue=queue, consumer_tag=_TAG), spec.Basic.ConsumeOk)
        except BaseException:
            self._connection.drop()
            raise

    def read(self, limit: int, wait_seconds: float) -> list[Incoming]:
        """Return up to `limit` messages; none when none came for `wait_seconds`."""
        connection, arrived = self._connection, self._connection.arrived
        found: list[Incoming] = []
        room = READ_BYTES
        deadline = time.monotonic() + wait_seconds
        while True:
            while arrived and len(found) < limit and room > 0:
                one = incoming_of(arrived.popleft(), self._queue)
                found.append(one)
                self._unsettled.add(one.token)
                room -= len(one.payload)
            if len(found) >= limit or room <= 0:
                return found
            # What is on its way already is waited for only a moment: a batch that is not full is stored, too.
            wait = 0.02 if found else deadline - time.monotonic()
            if self._is_finished and not arrived:
                wait = 0.0
            if not connection.fill(wait) and (found or self._is_finished or time.monotonic() >= deadline):
                return found

    def finish(self) -> None:
        """Give up the queue; what was handed out can still be read and acknowledged."""
        if not self._is_finished:
            self._connection.call(spec.Basic.Cancel(consumer_tag=_TAG), spec.Basic.CancelOk)
            self._is_finished = True

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Settle the messages; when this returns the broker has done so."""
        if not messages:
            return
        tags = {one.token for one in messages}
        highest = max(tags)
        older = {tag for tag in self._unsettled if tag <= highest}
        if older == tags:
            self._connection.send(_ack(highest, multiple=True))
        else:
            self._connection.send(b"".join(_ack(tag) for tag in sorted(tags)))
        self._unsettled -= tags
        # The channel answers in order: when it has answered this, it has seen the acknowledgements.
        self._qos()

    def close(self) -> None:
        """Give back what is not acknowledged."""
        with contextlib.suppress(BrokerError):
            self._connection.close()

    def _qos(self) -> None:
        self._connection.call(spec.Basic.Qos(prefetch_count=PREFETCH), spec.Basic.QosOk)


def _ack(tag: int, *, multiple: bool = False) -> bytes:
    return _ACK.pack(1, CHANNEL, _ACK_BYTES, 60, 80, tag, multiple, 0xCE)
