"""Reads one queue of RabbitMQ as a consumer that acknowledges what is stored, many messages at a time."""

import contextlib
import struct
import time
from collections.abc import Sequence

from pika import spec

from workers.brokers.contract import BrokerError, Login, Taken
from workers.brokers.rabbitmq.connection import CHANNEL, AmqpConnection
from workers.brokers.rabbitmq.messages import taken_of

# Two batches are stored and acknowledged while a third is read.
PREFETCH = 6000
READ_BYTES = 8 * 1024 * 1024
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

    def read(self, limit: int, wait_seconds: float) -> list[Taken]:
        """Return up to `limit` messages, or 8 MB of them; none when none came for `wait_seconds`."""
        connection, arrived = self._connection, self._connection.arrived
        taken: list[Taken] = []
        room = READ_BYTES
        deadline = time.monotonic() + wait_seconds
        while True:
            while arrived and len(taken) < limit and room > 0:
                one = taken_of(arrived.popleft(), self._queue)
                taken.append(one)
                self._unsettled.add(one.token)
                room -= len(one.payload)
            if len(taken) >= limit or room <= 0:
                return taken
            # What is on its way already is waited for only a moment: a batch that is not full is stored, too.
            wait = 0.02 if taken else deadline - time.monotonic()
            if self._is_finished and not arrived:
                wait = 0.0
            if not connection.fill(wait) and (taken or self._is_finished or time.monotonic() >= deadline):
                return taken

    def finish(self) -> None:
        """Give up the queue; what was handed out can still be read and acknowledged."""
        if not self._is_finished:
            self._connection.call(spec.Basic.Cancel(consumer_tag=_TAG), spec.Basic.CancelOk)
            self._is_finished = True

    def acknowledge(self, taken: Sequence[Taken]) -> None:
        """Settle the messages; when this returns the broker has worked on it."""
        if not taken:
            return
        tags = {one.token for one in taken}
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
