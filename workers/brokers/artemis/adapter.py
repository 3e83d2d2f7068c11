"""ActiveMQ Artemis, over STOMP 1.2."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence

from stomp.utils import Frame

from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.artemis.connection import StompConnection
from workers.brokers.artemis.management import ArtemisQueue, Management, found_queues, queue_named
from workers.brokers.artemis.messages import incoming_of, is_bytes, number_of
from workers.brokers.artemis.publisher import ArtemisPublisher
from workers.brokers.contract import READ_BYTES, BrokerError, Incoming, Login, Shard, first_messages

# What the broker may have given out without an acknowledgement; what it has given out is asked for as a whole.
_WINDOW_BYTES = 6 * 1024 * 1024
_SUBSCRIPTION = "drain"
# Without a body, a text, bytes; an object is 2, a map 5, a stream 6. Source: Artemis's core API, Message.
_CARRIED = frozenset((0, 3, 4))
_WHITESPACE = frozenset("\t\n\r")


class ArtemisReader:
    """A consumer of one queue; see contract.Reader. Messages that STOMP cannot carry stay in the queue."""

    def __init__(self, connection: StompConnection, management: Management, queue: ArtemisQueue, name: str) -> None:
        self._connection = connection
        self._name = name
        self._arrived = connection.arrived[_SUBSCRIPTION]
        self._kinds = _BodyKinds(management, queue.name)
        self._given: dict[int, str] = {}  # by token, what acknowledges each that is not acknowledged
        self._count = 0
        self._kept_count = 0
        self._left_count: int | None = None  # how many are still read after `finish`
        subscription = {
            "id": _SUBSCRIPTION,
            "destination": queue.place,
            "subscription-type": queue.routing,
            "ack": "client-individual",
            "consumer-window-size": str(_WINDOW_BYTES),
        }
        connection.settle("SUBSCRIBE", subscription, "asking for messages")

    def read(self, limit: int, wait_seconds: float) -> list[Incoming]:
        """Return up to `limit` messages; none when none came for `wait_seconds`.

        When only messages are left that STOMP cannot carry, that is a `BrokerError`, which says so.
        """
        arrived = self._arrived
        found: list[Incoming] = []
        room = READ_BYTES
        deadline = time.monotonic() + wait_seconds
        while True:
            while arrived and len(found) < limit and room > 0 and self._left_count != 0:
                if (one := self._next()) is not None:
                    found.append(one)
                    room -= len(one.payload)
            if len(found) >= limit or room <= 0 or self._left_count is not None:
                return found
            # What is on its way already is waited for only a moment: a batch that is not full is stored, too.
            wait = 0.02 if found else max(deadline - time.monotonic(), 0.0)
            if not self._connection.wait(lambda: bool(arrived), wait):
                if self._kept_count and not found and not self._given:
                    raise BrokerError(
                        f"{self._kept_count} messages are JMS maps, streams or objects, which STOMP cannot carry: they"
                        " stay in the queue, where Artemis itself can retry them (retryMessages)"
                    )
                return found

    def finish(self) -> None:
        """Read no more than what is here: what still comes goes back when this is closed, and counts as not given."""
        if self._left_count is None:
            self._left_count = len(self._arrived)

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Settle the messages; when this returns the broker has done so."""
        acks = [self._given.pop(one.token) for one in messages if one.token in self._given]
        if not acks:
            return
        self._connection.send(("ACK", {"id": one}, b"") for one in acks[:-1])
        # The broker works on one after the other.
        self._connection.settle("ACK", {"id": acks[-1]}, "acknowledging")

    def leave(self) -> None:
        """Give back what is not acknowledged, and keep the connection. Errors: `BrokerError`."""
        self._connection.settle("UNSUBSCRIBE", {"id": _SUBSCRIPTION}, "giving up the queue")
        self._arrived.clear()

    def close(self) -> None:
        """Give back what is not acknowledged."""
        with contextlib.suppress(BrokerError):
            self.leave()
        self._connection.close()

    def _next(self) -> Incoming | None:
        frame = self._arrived.popleft()
        if self._left_count is not None:
            self._left_count -= 1
        if not self._kinds.is_carried(frame):
            self._kept_count += 1
            return None
        self._count += 1
        self._given[self._count] = frame.headers.get("ack", "")
        return incoming_of(frame, self._name, self._count)


class _BodyKinds:
    """The kinds of the messages that one queue has given out. Errors: `BrokerError`.

    Of a JMS map, stream or object STOMP shows next to nothing, and does not say so: Artemis is asked for the kinds of
    all messages that it has given out, once for as many as it gives out at a time.
    """

    def __init__(self, management: Management, queue: str) -> None:
        self._management = management
        self._queue = queue
        self._known: dict[str, int | None] = {}

    def is_carried(self, frame: Frame) -> bool:
        """Return whether the message's body is in its frame."""
        if is_bytes(frame.headers):
            return True
        number = number_of(frame.headers)
        if number not in self._known:
            self._ask()
        kind = self._known.get(number)
        return kind in _CARRIED if kind is not None else _is_a_text(bytes(frame.body or b""))

    def _ask(self) -> None:
        listed = self._management.call(f"queue.{self._queue}", "listDeliveringMessagesAsJSON")
        try:
            given = [one for consumer in json.loads(listed) for one in consumer["elements"]]
            self._known = {str(one["messageID"]): one.get("type") for one in given}
        except (ValueError, TypeError, KeyError) as error:
            raise BrokerError(f"the broker's list of what it has given out cannot be read: {error}") from None


def _is_a_text(body: bytes) -> bool:
    """Return whether this can be what a producer sent: what came over AMQP has no kind that Artemis tells."""
    text = body.decode("utf-8", "replace")
    return bool(text) and all(one.isprintable() or one in _WHITESPACE for one in text)


class ArtemisAdapter:
    """See contract.Adapter. Every login must be allowed to manage: else nobody knows what queues there are."""

    def shards(self, login: Login) -> list[Shard]:
        """Return a shard for each reader of each queue; those at one queue share what it gives out."""
        readers = int(login.options["readers"])
        return [Shard(queue, place=place) for queue in login.options["queues"] for place in range(readers)]

    def depth(self, login: Login) -> int:
        """Return how many messages are in all queues that are drained."""
        with contextlib.closing(StompConnection(login)) as connection:
            management = Management(connection)
            return sum(_queue(management, name).depth for name in login.options["queues"])

    def open_reader(self, login: Login, shard: Shard) -> ArtemisReader:
        """Consume the shard's queue.

        Artemis makes a queue that is consumed and is not there: a name that is spelt wrong would stay unseen.
        """
        connection = StompConnection(login)
        try:
            management = Management(connection)
            return ArtemisReader(connection, management, _queue(management, shard.queue), shard.queue)
        except BrokerError:
            connection.drop()
            raise

    def open_publisher(self, login: Login) -> ArtemisPublisher:
        """Return a publisher that is not connected yet."""
        return ArtemisPublisher(login)

    def browse(self, login: Login, limit: int) -> Iterator[Incoming]:
        """Yield the first messages of the queues: they are given out and given back, which is STOMP's only way.

        It does not count as a delivery.
        """
        with contextlib.closing(StompConnection(login)) as connection:
            management = Management(connection)
            for name in login.options["queues"]:
                if not limit:
                    return
                reader = ArtemisReader(connection, management, _queue(management, name), name)
                for one in first_messages(reader, limit):
                    yield one
                    limit -= 1
                reader.leave()

    def queues(self, login: Login) -> list[FoundQueue]:
        """Return the broker's queues."""
        with contextlib.closing(StompConnection(login)) as connection:
            return found_queues(connection)


def _queue(management: Management, name: str) -> ArtemisQueue:
    found = queue_named(management, name)
    if found is None:
        raise BrokerError(f"there is no queue {name!r}")
    return found


ADAPTER = ArtemisAdapter()
