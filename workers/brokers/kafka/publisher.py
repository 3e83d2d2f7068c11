"""Publishes to Kafka: everything is handed to the client, then every delivery report awaited."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from poisonadmin.groups.domain.failures import Failure
from workers.brokers.contract import BrokerError, Login, Outgoing, Results
from workers.brokers.kafka.connection import client, metadata
from workers.brokers.kafka.messages import partition_of, record_of
from workers.brokers.kafka.resolver import refusal
from workers.brokers.publishing import confirm_lost, not_sent, refused, unroutable

# Topics are asked for anew after this time, and when one is not known.
_KNOWN_SECONDS = 60.0
_LAST_SECONDS = 5.0
# Kafka's codes for "nowhere", "in our queue" and "left, and not answered"; all others are a no.
_NOWHERE = frozenset(
    (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001
)
_QUEUED = frozenset((KafkaError._PURGE_QUEUE, KafkaError._QUEUE_FULL))  # noqa: SLF001
_NO_ANSWER = frozenset(
    (
        KafkaError._PURGE_INFLIGHT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._DESTROY,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    )
)  # fmt: skip


class KafkaPublisher:
    """See contract.Publisher. It connects when it first publishes, and anew after messages were lost."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._producer: Producer | None = None
        self._topics: dict[str, int] = {}
        self._asked_at = 0.0
        self._connection_error = ""

    def publish(self, batch: Sequence[Outgoing], timeout_seconds: float) -> Results:
        """Send all, await each report; return place by place None, or why it is not confirmed."""
        deadline = time.monotonic() + timeout_seconds
        self._connection_error = ""
        results: Results = [not_sent("it was not handed over in time")] * len(batch)
        try:
            producer = self._opened()
            self._know({one.target for one in batch}, producer, deadline)
        except BrokerError as error:
            self.close()
            return [not_sent(str(error))] * len(batch)
        for place, one in enumerate(batch):
            if not self._hand_over(producer, one, self._reporting(results, place), deadline):
                results[place] = unroutable(f"there is no topic {one.target!r}")
        producer.flush(max(deadline - time.monotonic(), 0.0))
        if len(producer):
            producer.purge()
            producer.flush(_LAST_SECONDS)
            # A late report would be taken for another message's; and of an idempotent client nothing may be taken away.
            self._producer = None
        return results

    def close(self) -> None:
        """Close the client, without an error."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(_LAST_SECONDS)
            self._producer = None

    def _opened(self) -> Producer:
        if self._producer is None:
            own = {
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": 100_000,
                # publish() ends the waiting, by the time that it was given.
                "message.timeout.ms": 3_600_000,
                # A payload is as large as the broker takes it.
                "message.max.bytes": 128 * 1024 * 1024,
                "error_cb": self._on_error,
            }
            self._producer, self._asked_at = client(Producer, self._login, own), 0.0
        return self._producer

    def _know(self, wanted: set[str], producer: Producer, deadline: float) -> None:
        now = time.monotonic()
        if now - self._asked_at > _KNOWN_SECONDS or not wanted <= self._topics.keys():
            self._topics = metadata(producer, seconds=min(deadline - now, 10.0))
            self._asked_at = now

    def _hand_over(self, producer: Producer, one: Outgoing, report: Callable[..., None], deadline: float) -> bool:
        topic = one.target
        if topic not in self._topics:
            return False
        record: dict[str, Any] = record_of(one)
        if (partition := partition_of(one, self._topics[topic])) is not None:
            record["partition"] = partition
        while True:
            try:
                producer.produce(topic, on_delivery=report, **record)
                return True
            except BufferError:
                if time.monotonic() > deadline:
                    return True
                producer.poll(0.05)
            except KafkaException as error:
                report(error.args[0], None)
                return True
            except (ValueError, TypeError) as error:
                report(not_sent(str(error)), None)
                return True

    def _reporting(self, results: Results, place: int) -> Callable[..., None]:
        def report(error: KafkaError | Failure | None, _record: Any) -> None:
            results[place] = self._failure(error) if isinstance(error, KafkaError) else error

        return report

    def _failure(self, error: KafkaError) -> Failure:
        code, text = error.code(), error.str()
        if code in _NOWHERE:
            return unroutable(text)
        if code in _QUEUED:
            # What was sent on a connection that broke is queued again, as what has never left is.
            return confirm_lost(self._connection_error) if self._connection_error else not_sent(text)
        return confirm_lost(text) if code in _NO_ANSWER else refused(text)

    def _on_error(self, error: KafkaError) -> None:
        self._connection_error = (self._producer is not None and refusal(self._producer)) or error.str()
