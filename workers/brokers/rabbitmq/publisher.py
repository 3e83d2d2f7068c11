"""Publishes to RabbitMQ: everything is sent, then every confirm awaited."""

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from pika import spec

from poisonadmin.groups.domain.failures import Failure
from workers.brokers.contract import BrokerError, Login, Outgoing, Results
from workers.brokers.publishing import MOST_REFUSED, Sending, confirm_lost, not_sent, refused, unroutable
from workers.brokers.rabbitmq.connection import AmqpConnection, Arrived, RefusedByBroker
from workers.brokers.rabbitmq.encoding import fields, read_content, short_texts, value_of
from workers.brokers.rabbitmq.messages import Unsendable, frames_of

_CHUNK_BYTES = 128 * 1024
# What tells a message that the broker returned from the others.
_IDENTITY = ("PoisonAdmin-Message-Id", "PoisonAdmin-Attempt")


class RabbitMqPublisher:
    """See contract.Publisher. It connects when it first publishes, and anew after anything went wrong."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._connection: AmqpConnection | None = None
        self._published = 0

    def publish(self, batch: Sequence[Outgoing], timeout_seconds: float) -> Results:
        """Send all, await each confirm; return place by place None, or why it is not confirmed.

        When the broker closes the channel because of one message, those without an answer are sent one by one.
        """
        deadline = time.monotonic() + timeout_seconds
        unreached = not_sent("the connection was lost before it was sent")
        results: Results = [unreached] * len(batch)
        places = list(range(len(batch)))
        cause = self._send_and_wait(batch, places, results, deadline)
        if cause is None or len(batch) == 1:
            return results
        again = [place for place in places if results[place] is cause or results[place] is unreached]
        refused_in_a_row = 0
        for place in again:
            if refused_in_a_row >= MOST_REFUSED:
                break
            failure = self._send_and_wait(batch, [place], results, deadline)
            refused_in_a_row = 0 if failure is None else refused_in_a_row + 1
        return results

    def close(self) -> None:
        """Close the connection, without an error."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send_and_wait(
        self, batch: Sequence[Outgoing], places: Sequence[int], results: Results, deadline: float
    ) -> Failure | None:
        """Publish the messages at these places; return the failure of all of them when the broker refused one."""
        try:
            connection = self._opened(deadline)
        except BrokerError as error:
            for place in places:
                results[place] = not_sent(str(error))
            return None
        sending = _AmqpSending(connection, batch, results, first_tag=self._published + 1)
        try:
            self._published += sending.send(places, self._login, deadline)
            sending.wait(deadline)
        except RefusedByBroker as error:
            return self._fail(sending, refused(str(error)))
        except BrokerError as error:
            self._fail(sending, confirm_lost(str(error)))
        if sending.unconfirmed:
            # A late confirm would be taken for another message's.
            self._fail(sending, confirm_lost(f"no confirm in time ({connection.blocked or 'the broker is silent'})"))
        return None

    def _opened(self, deadline: float) -> AmqpConnection:
        """Return a connection on which the broker confirms, and takes messages."""
        if self._connection is None or not self._connection.is_alive():
            self._drop()
            connection = AmqpConnection(self._login, answer_seconds=deadline - time.monotonic())
            try:
                connection.call(spec.Confirm.Select(), spec.Confirm.SelectOk)
            except BaseException:
                connection.drop()
                raise
            self._connection, self._published = connection, 0
        connection = self._connection
        while connection.blocked is not None:
            if time.monotonic() >= deadline:
                raise BrokerError(f"the broker takes nothing at present: {connection.blocked}")
            connection.fill(min(0.2, deadline - time.monotonic()))
        return connection

    def _fail(self, sending: "_AmqpSending", failure: Failure) -> Failure:
        sending.fail(failure)
        self._drop()
        return failure

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None


class _AmqpSending(Sending[int]):
    """Confirms name messages by their delivery tags."""

    def __init__(
        self, connection: AmqpConnection, batch: Sequence[Outgoing], results: Results, *, first_tag: int
    ) -> None:
        super().__init__(batch, results)
        self._connection = connection
        self._first_tag = first_tag
        self._lowest = first_tag
        self._unroutable: dict[tuple[str, ...], list[Failure]] = {}

    def send(self, places: Sequence[int], login: Login, deadline: float) -> int:
        """Write the messages; return how many. One that cannot be written has failed."""
        connection, frames, size = self._connection, [], 0
        tag = self._first_tag
        for place in places:
            try:
                raw = frames_of(self._batch[place], login, connection.frame_bytes)
            except Unsendable as error:
                self._results[place] = not_sent(str(error))
                continue
            self._results[place] = None
            self.unconfirmed[tag] = place
            tag += 1
            frames.append(raw)
            size += len(raw)
            if size >= _CHUNK_BYTES:
                self._write(frames, deadline)
                frames, size = [], 0
        if frames:
            self._write(frames, deadline)
        return tag - self._first_tag

    def _listen(self, seconds: float) -> None:
        self._connection.fill(seconds)

    def _write(self, frames: list[bytes], deadline: float) -> None:
        self._connection.set_timeout(deadline - time.monotonic())
        self._connection.send(b"".join(frames))
        self._connection.fill(0.0)
        self._settle()

    def _settle(self) -> None:
        # What the broker returns it confirms afterwards.
        connection = self._connection
        while connection.returned:
            identity, failure = _returned(connection.returned.popleft())
            self._unroutable.setdefault(identity, []).append(failure)
        while connection.confirmed:
            tag, is_multiple, is_ack = connection.confirmed.popleft()
            for one in range(self._lowest if is_multiple else tag, tag + 1):
                place = self.unconfirmed.pop(one, None)
                if place is None:
                    continue
                if not is_ack:
                    self._results[place] = refused("the broker refused it (nack): its queue is full or has failed")
                elif self._unroutable and (failures := self._unroutable.get(_identity(self._batch[place]))):
                    self._results[place] = failures.pop()
            if is_multiple:
                self._lowest = tag + 1


def _identity(one: Outgoing) -> tuple[str, ...]:
    return tuple(one.own_headers.get(name, "") for name in _IDENTITY)


def _returned(arrived: Arrived) -> tuple[tuple[str, ...], Failure]:
    """Return which message came back, and why."""
    arguments, header, _ = arrived
    texts = short_texts(arguments[2:])
    why = f"{texts[0]}: exchange {texts[1]!r}, routing key {texts[2]!r}"
    found: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        table = read_content(header).headers
        # Our own headers come last, and win.
        found = {name: value_of(table, kind, value, end) for name, kind, _, value, end in fields(table)}
    return tuple(str(found.get(name, "")) for name in _IDENTITY), unroutable(why)
