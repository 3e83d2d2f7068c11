"""RabbitMQ, classic and quorum queues, over AMQP 0-9-1."""

import base64
import contextlib
import http.client
import json
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from pika import spec

from poisonadmin.brokers.domain.broker_kinds import RABBITMQ
from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.connect import broker_url, open_socket
from workers.brokers.contract import READ_BYTES, BrokerError, Incoming, Login, Shard, is_named_for_dead_letters
from workers.brokers.rabbitmq.connection import CHANNEL, AmqpConnection, credentials
from workers.brokers.rabbitmq.messages import has_deliveries, incoming_of
from workers.brokers.rabbitmq.publisher import RabbitMqPublisher

# Two batches are stored and acknowledged while a third is read.
PREFETCH = 6000
_ACK = struct.Struct(">BHIHHQBB")
_ACK_BYTES = 13
_TAG = "poisonadmin"


class RabbitMqReader:
    """A consumer of one queue that acknowledges many stored messages at a time; see contract.Reader."""

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


# A second reader takes a task slot, which pays when there is much to read.
_MESSAGES_A_READER = 2000
# A quorum queue counts each fetch of a message as a delivery, and drops it at its limit, 20 unless it is configured.
_MOST_DELIVERIES = 10


class RabbitMqAdapter:
    """See contract.Adapter."""

    def shards(self, login: Login) -> list[Shard]:
        """Return a shard for each reader that each queue is worth; those at one queue share what it gives out.

        An empty queue is worth none.
        """
        most = int(login.options["readers"])
        with contextlib.closing(AmqpConnection(login)) as connection:
            return [
                Shard(queue, place=place)
                for queue in login.options["queues"]
                for place in range(min(most, -(-_count(connection, queue) // _MESSAGES_A_READER)))
            ]

    def depth(self, login: Login) -> int:
        """Return how many messages are ready in all queues that are drained."""
        with contextlib.closing(AmqpConnection(login)) as connection:
            return sum(_count(connection, queue) for queue in login.options["queues"])

    def open_reader(self, login: Login, shard: Shard) -> RabbitMqReader:
        """Consume the shard's queue."""
        return RabbitMqReader(login, shard.queue)

    def open_publisher(self, login: Login) -> RabbitMqPublisher:
        """Return a publisher that is not connected yet."""
        return RabbitMqPublisher(login)

    def browse(self, login: Login, limit: int) -> Iterator[Incoming]:
        """Yield the first messages of the queues: they are fetched and given back, which is RabbitMQ's only way.

        A quorum queue counts that as a delivery: where the messages have been delivered often, nothing more is fetched.
        """
        # What is not acknowledged goes back to where it was.
        with contextlib.closing(AmqpConnection(login)) as connection:
            for queue in login.options["queues"]:
                while limit and (message := _fetched(connection, queue)) is not None:
                    yield message
                    limit -= 1
                    if has_deliveries(message, _MOST_DELIVERIES):
                        return

    def queues(self, login: Login) -> list[FoundQueue]:
        """Return the virtual host's queues, those with signs of dead letters first. Errors: `BrokerError`.

        The management plugin knows them; AMQP 0-9-1 has no such question.
        """
        vhost = quote(broker_url(RABBITMQ, login).virtual_host, safe="")
        queues = _asked(login, f"/api/queues/{vhost}")
        bindings = _asked(login, f"/api/bindings/{vhost}")
        policies = [one.get("definition") or {} for one in _asked(login, f"/api/policies/{vhost}")]
        targets = _dead_letter_targets(queues, bindings, policies)
        found = [FoundQueue(str(one["name"]), one.get("messages"), _why(str(one["name"]), targets)) for one in queues]
        return sorted(found, key=lambda one: (not one.why, one.name))


def _count(connection: AmqpConnection, queue: str) -> int:
    return int(connection.call(spec.Queue.Declare(queue=queue, passive=True), spec.Queue.DeclareOk).message_count)


def _fetched(connection: AmqpConnection, queue: str) -> Incoming | None:
    # The answer to this one comes with a message: it is sorted with those.
    connection.call(spec.Basic.Get(queue=queue))
    while not connection.arrived:
        if connection.answer(spec.Basic.GetEmpty) is not None:
            return None
        if not connection.fill(10.0):
            raise BrokerError(f"{queue}: no answer")
    return incoming_of(connection.arrived.popleft(), queue, with_get=True)


ADAPTER = RabbitMqAdapter()


_PORTS = {"http": 15672, "https": 15671}
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_KEY = "x-dead-letter-routing-key"
_EXCHANGE = "x-dead-letter-exchange"


def _dead_letter_targets(
    queues: list[dict[str, Any]], bindings: list[dict[str, Any]], policies: list[dict[str, Any]]
) -> dict[str, str]:
    """Return which queues dead letters go to, each with what says so.

    A queue's arguments or a policy name an exchange, and perhaps a key; without a name it is the default exchange.
    """
    routes: list[tuple[str, str | None, str]] = []
    for queue in queues:
        arguments = queue.get("arguments") or {}
        if _EXCHANGE in arguments:
            key = arguments.get(_KEY, queue.get("name"))
            routes.append((str(arguments[_EXCHANGE]), str(key), f"dead letters of {queue.get('name')} go here"))
    for definition in policies:
        if "dead-letter-exchange" in definition:
            key = definition.get("dead-letter-routing-key")
            routes.append((str(definition["dead-letter-exchange"]), key, "a policy sends dead letters here"))
    found: dict[str, str] = {}
    for exchange, key, why in routes:
        for binding in bindings:
            is_there = binding.get("source") == exchange and binding.get("destination_type") == "queue"
            if is_there and (exchange or binding.get("routing_key") == key):
                found.setdefault(str(binding.get("destination")), why)
    return found


def _why(name: str, targets: dict[str, str]) -> str:
    if name in targets:
        return targets[name]
    return "its name says so" if is_named_for_dead_letters(name, "dlx") else ""


def _asked(login: Login, path: str) -> list[dict[str, Any]]:
    url = _management_url(login)
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    host = parts.hostname or ""
    asking = http.client.HTTPConnection(host, port)
    asking.sock = open_socket(host, port, with_tls=parts.scheme == "https", verify_tls=login.verifies_tls)
    secret = base64.b64encode(":".join(credentials(login)).encode()).decode()
    try:
        asking.request("GET", parts.path.rstrip("/") + path, headers={"Authorization": f"Basic {secret}"})
        answer = asking.getresponse()
        raw = answer.read(_MAX_ANSWER_BYTES + 1)
        if answer.status != 200 or len(raw) > _MAX_ANSWER_BYTES:
            raise BrokerError(f"{url} answered {answer.status} {answer.reason}"[:300])
        found = json.loads(raw)
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise BrokerError(f"{url} cannot be asked: {error}"[:300]) from None
    finally:
        asking.close()
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _management_url(login: Login) -> str:
    if (configured := login.options.get("management_url")) is not None:
        return str(configured)
    where = broker_url(RABBITMQ, login)
    host = where.hosts[0][0]
    scheme = "https" if where.is_encrypted else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{_PORTS[scheme]}"
