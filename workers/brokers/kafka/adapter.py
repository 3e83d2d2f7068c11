"""Apache Kafka."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.contract import BrokerError, Incoming, Login, Shard, is_named_for_dead_letters
from workers.brokers.kafka.connection import ANSWER_SECONDS, admin, consumer, metadata, partitions, reason
from workers.brokers.kafka.publisher import KafkaPublisher
from workers.brokers.kafka.reader import KafkaReader

_QUIET_SECONDS = 0.5
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
        asking = consumer(login, {})
        try:
            topics = metadata(asking)
            places = [one for topic in login.options["topics"] for one in partitions(topics, topic)]
            committed = asking.committed(places, timeout=ANSWER_SECONDS)
            return sum(_behind(asking, one) for one in committed)
        except KafkaException as error:
            raise BrokerError(f"no answer from Kafka: {reason(error, asking)}") from None
        finally:
            asking.close()

    def open_reader(self, login: Login, shard: Shard) -> KafkaReader:
        """Read the shard's partition from the group's offset on."""
        return KafkaReader(login, shard.queue, shard.partition or 0)

    def open_publisher(self, login: Login) -> KafkaPublisher:
        """Return a publisher that is not connected yet."""
        return KafkaPublisher(login)

    def browse(self, login: Login, limit: int) -> list[Incoming]:
        """Return the first records that are not drained yet; no offset is committed."""
        found: list[Incoming] = []
        for shard in self.shards(login):
            reader = self.open_reader(login, shard)
            try:
                while len(found) < limit and (some := reader.read(limit - len(found), _QUIET_SECONDS)):
                    found += some
            finally:
                reader.close()
            if len(found) >= limit:
                break
        return found

    def queues(self, login: Login) -> list[FoundQueue]:
        """Return the topics, but for Kafka's own; those that are named like dead letters' first, with their depths."""
        asking = consumer(login, {})
        try:
            topics = metadata(asking)
            found, asked = [], 0
            for name in sorted(topics, key=lambda one: (not _why(one), one)):
                if name.startswith("__"):
                    continue
                asked += topics[name]
                places = partitions(topics, name) if asked <= _MOST_PARTITIONS else None
                depth = None if places is None else sum(_depth(asking, one) for one in places)
                found.append(FoundQueue(name, depth, _why(name)))
            return found
        except KafkaException as error:
            raise BrokerError(f"no answer from Kafka: {reason(error, asking)}") from None
        finally:
            asking.close()


def _behind(asking: Consumer, committed: TopicPartition) -> int:
    low, high = asking.get_watermark_offsets(committed, timeout=ANSWER_SECONDS)
    return int(high - max(low, committed.offset))


def _depth(asking: Consumer, place: TopicPartition) -> int:
    low, high = asking.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
    return int(high - low)


def _why(topic: str) -> str:
    return "its name" if is_named_for_dead_letters(topic, "dlt") else ""


ADAPTER = KafkaAdapter()
