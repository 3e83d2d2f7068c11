"""Apache Kafka."""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.contract import (
    READ_BYTES,
    BrokerError,
    Incoming,
    Login,
    Shard,
    first_messages,
    is_named_for_dead_letters,
)
from workers.brokers.kafka.connection import (
    ANSWER_SECONDS,
    NO_ANSWER,
    admin,
    asking,
    consumer,
    metadata,
    partitions,
)
from workers.brokers.kafka.messages import incoming_of
from workers.brokers.kafka.publisher import KafkaPublisher
from workers.brokers.kafka.resolver import refusal

_CHUNK = 500
# A partition that is not at its end must give something in this time.
_FETCH_SECONDS = 30.0
_POLL_SECONDS = 0.02
_CLOSE_SECONDS = 3.0


class KafkaReader:
    """A consumer of one partition; see contract.Reader. It commits the offset of what is stored.

    No group balances it: shards decide who reads what.
    """

    def __init__(self, login: Login, topic: str, partition: int) -> None:
        self._arrived: deque[Message] = deque()
        self._given: deque[tuple[int, int]] = deque()  # token and offset, in order
        self._stored: set[int] = set()
        self._count = 0
        self._is_finished = False
        self._is_at_end = False
        self._committed: tuple[KafkaError | None] | None = None
        self._failure: str | None = None
        own = {
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 3 * READ_BYTES // 1024,
            "on_commit": self._on_commit,
            "error_cb": self._on_error,
        }
        self._consumer = consumer(login, own)
        try:
            known = partitions(metadata(self._consumer), topic)
            if partition >= len(known):
                raise BrokerError(f"topic {topic!r} has no partition {partition}")
            self._place = TopicPartition(topic, partition)
            with asking(topic, self._consumer):
                (found,) = self._consumer.committed([self._place], timeout=ANSWER_SECONDS)
                if found.error is not None:
                    raise KafkaException(found.error)
                # Without a committed offset it begins as `auto.offset.reset` says.
                self._consumer.assign([TopicPartition(topic, partition, found.offset)])
        except BrokerError:
            self.close()
            raise

    def read(self, limit: int, wait_seconds: float) -> list[Incoming]:
        """Return up to `limit` messages; none when none came for `wait_seconds`."""
        arrived = self._arrived
        found: list[Incoming] = []
        room = READ_BYTES
        began = time.monotonic()
        while not self._is_finished:
            while arrived and len(found) < limit and room > 0:
                found.append(self._next())
                room -= len(found[-1].payload)
            if len(found) >= limit or room <= 0:
                break
            self._poll(min(limit - len(found), _CHUNK))
            waited = time.monotonic() - began
            if not arrived and (found or (waited >= wait_seconds and self._may_be_empty(waited))):
                break
        return found

    def finish(self) -> None:
        """Read no more: what was fetched ahead has never been given out."""
        self._is_finished = True

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Commit the offset after the messages; returns when the broker has it.

        One offset is for all messages before it: those that are stored out of their order wait for the others.
        """
        self._stored.update(one.token for one in messages)
        last = None
        while self._given and self._given[0][0] in self._stored:
            token, last = self._given.popleft()
            self._stored.discard(token)
        if last is not None:
            self._commit(last + 1)

    def close(self) -> None:
        """Close the consumer.

        The client waits for the answer to a commit however long a broker is away: it is left to end by itself.
        """
        closing = threading.Thread(target=self._consumer.close, name="close kafka", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _next(self) -> Incoming:
        record = self._arrived.popleft()
        self._count += 1
        self._given.append((self._count, int(record.offset() or 0)))
        return incoming_of(record, self._count)

    def _poll(self, count: int) -> None:
        """Let the client work for a moment, and keep what it has fetched."""
        with asking(self._place.topic, self._consumer):
            records = self._consumer.consume(count, _POLL_SECONDS)
        for record in records:
            event = record.error()
            if event is None:
                self._arrived.append(record)
                self._is_at_end = False
            elif event.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's own name for it
                self._is_at_end = True
            elif not event.retriable():
                raise BrokerError(f"{self._place.topic}: {event.str()}")
        if not records and (failure := refusal(self._consumer) or self._failure) is not None:
            raise BrokerError(f"{self._place.topic}: {failure}")

    def _may_be_empty(self, waited: float) -> bool:
        """Return whether nothing more is there; raise `BrokerError` when the broker does not say.

        The client is silent about a broker that has gone, and tries again for ever.
        """
        if not self._is_at_end:
            if waited > _FETCH_SECONDS:
                raise BrokerError(
                    f"{self._place.topic}: the broker gives nothing, and does not say that it has nothing"
                )
            return False
        with asking(self._place.topic, self._consumer):
            self._consumer.get_watermark_offsets(self._place, timeout=ANSWER_SECONDS, cached=False)
        return True

    def _commit(self, offset: int) -> None:
        self._committed = None
        place = TopicPartition(self._place.topic, self._place.partition, offset)
        with asking(self._place.topic, self._consumer):
            self._consumer.commit(offsets=[place], asynchronous=True)
        deadline = time.monotonic() + ANSWER_SECONDS
        while (answer := self._committed) is None:
            if time.monotonic() > deadline:
                raise BrokerError(f"{self._place.topic}: the broker has not stored the offset in time")
            self._poll(1)
        (failed,) = answer
        if failed is not None:
            raise BrokerError(f"{self._place.topic}: the broker has not stored the offset: {failed.str()}")

    def _on_error(self, error: KafkaError) -> None:
        # The client tries again for ever, and is silent besides.
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._failure = error.str()

    def _on_commit(self, error: KafkaError | None, places: Sequence[Any]) -> None:
        self._committed = (error or next((one.error for one in places if one.error is not None), None),)


# A partition that is new, or moves to another broker, has no leader for a moment; the client looks for it meanwhile.
_WITHOUT_LEADER = frozenset((KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE))
_LEADER_SECONDS = 0.2
# Depths are asked for partition by partition.
_MOST_PARTITIONS = 500


class KafkaAdapter:
    """See contract.Adapter."""

    def shards(self, login: Login) -> list[Shard]:
        """Return one shard for each partition of the topics that are drained."""
        topics = metadata(admin(login))
        return [
            Shard(one.topic, partition=one.partition)
            for topic in login.options["topics"]
            for one in partitions(topics, topic)
        ]

    def depth(self, login: Login) -> int:
        """Return how many records are behind the group's offsets."""
        return sum(depth for _, depth in _waiting(login))

    def open_reader(self, login: Login, shard: Shard) -> KafkaReader:
        """Read the shard's partition from the group's offset on."""
        return KafkaReader(login, shard.queue, shard.partition or 0)

    def open_publisher(self, login: Login) -> KafkaPublisher:
        """Return a publisher that is not connected yet."""
        return KafkaPublisher(login)

    def browse(self, login: Login, limit: int) -> Iterator[Incoming]:
        """Yield the first records that are not drained yet; no offset is committed."""
        # What is known to be empty need not be asked, and what is known to be all need not be waited for.
        for place, depth in _waiting(login):
            if count := min(limit, depth):
                with closing(KafkaReader(login, place.topic, place.partition)) as reader:
                    for one in first_messages(reader, count):
                        yield one
                        limit -= 1

    def queues(self, login: Login) -> list[FoundQueue]:
        """Return the topics, but for Kafka's own; those that are named like dead letters' first, with their depths."""
        with closing(consumer(login, {})) as client, asking(NO_ANSWER, client):
            topics = metadata(client)
            found, asked = [], 0
            for name in sorted(topics, key=lambda one: (not _why(one), one)):
                if name.startswith("__"):
                    continue
                asked += topics[name]
                places = partitions(topics, name) if asked <= _MOST_PARTITIONS else None
                depth = None if places is None else sum(_depth(client, one) for one in places)
                found.append(FoundQueue(name, depth, _why(name)))
            return found


def _waiting(login: Login) -> list[tuple[TopicPartition, int]]:
    """Return the partitions of what is drained, each with how many records are behind the group's offset."""
    with closing(consumer(login, {})) as client, asking(NO_ANSWER, client):
        topics = metadata(client)
        places = [one for topic in login.options["topics"] for one in partitions(topics, topic)]
        committed = client.committed(places, timeout=ANSWER_SECONDS)
        return [(one, _depth(client, one, since=one.offset)) for one in committed]


def _depth(client: Consumer, place: TopicPartition, since: int = 0) -> int:
    """Return how many records a partition has from an offset on."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            low, high = client.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
            return int(high - max(low, since))
        except KafkaException as error:
            if error.args[0].code() not in _WITHOUT_LEADER or time.monotonic() > deadline:
                raise
            time.sleep(_LEADER_SECONDS)


def _why(topic: str) -> str:
    return "its name" if is_named_for_dead_letters(topic, "dlt") else ""


ADAPTER = KafkaAdapter()
