"""What is Kafka's own: keys, partitions, headers that are bytes, tombstones, offsets, and who stamps what."""

import time

import pytest

from tests.brokers.kafka import Kafka
from tests.brokers.kafka_rig import KafkaTopics
from tests.brokers.killing import outgoing, read_all
from tests.brokers.received import Sent
from workers.brokers.contract import BrokerError, Outgoing, Shard
from workers.brokers.kafka.adapter import ADAPTER


@pytest.fixture
def rig(kafka: Kafka) -> KafkaTopics:
    """Return topics of the broker."""
    return KafkaTopics(kafka)


def publish(rig: KafkaTopics, *batch: Outgoing) -> list[str | None]:
    """Publish, and return the class of each failure."""
    publisher = ADAPTER.open_publisher(rig.login())
    try:
        return [None if one is None else one.exception_class for one in publisher.publish(batch, 30.0)]
    finally:
        publisher.close()


def test_key_partition_and_bytes_of_headers_come_back(rig: KafkaTopics) -> None:
    headers = {"tenant": "eu", "raw": b"\x00\xff", "__TypeId__": "com.example.Order", "none": None}
    sent = [Sent(b"%d" % n, headers=headers, properties={"key": b"k\xff%d" % n, "partition": n % 3}) for n in range(9)]
    original, dead = rig.dead_letter(sent)
    taken = read_all(rig, dead, 9)

    assert publish(rig, *(outgoing(one, number) for number, one in enumerate(taken, start=1))) == [None] * 9

    received = rig.receive(original, 9)
    found = {one.payload: (one.properties["key"], one.properties["partition"]) for one in received}
    assert found == {one.payload: (one.properties["key"], one.properties["partition"]) for one in sent}
    records = rig._consume(original, None, "raw")  # the rig shows headers as texts
    back = [one for one in records if ("PoisonAdmin-Attempt", b"1") in (one.headers() or [])]
    own = {"PoisonAdmin-Message-Id", "PoisonAdmin-Attempt"}
    for one in back:
        kept = [(name, value) for name, value in one.headers() or [] if name not in own]
        assert kept == [("tenant", b"eu"), ("raw", b"\x00\xff"), ("__TypeId__", b"com.example.Order"), ("none", None)]


def test_a_record_without_a_value_comes_back_without_one(rig: KafkaTopics) -> None:
    original, dead = rig.pair()
    rig.publish(dead, [Sent(None, headers={"kafka_dlt-original-topic": original}, properties={"key": b"k"})])  # type: ignore[arg-type]
    (taken,) = read_all(rig, dead, 1)

    assert (taken.payload, taken.transport["is_tombstone"]) == (b"", True)
    assert publish(rig, outgoing(taken)) == [None]
    (record,) = rig._consume(original, 1, "tombstone")
    assert (record.key(), record.value()) == (b"k", None)


def test_a_dead_letter_of_spring_tells_its_cause(rig: KafkaTopics) -> None:
    original, dead = rig.dead_letter([Sent(b"1", properties={"partition": 2, "key": b"customer-7"})])
    (taken,) = read_all(rig, dead, 1)

    found = taken.dead_letter
    assert (found.cause_class, found.original_address) == ("com.example.shop.NoSuchCustomer", original)
    assert found.exception_class == "org.springframework.kafka.listener.ListenerExecutionFailedException"
    assert found.failed_at is not None
    assert taken.headers["kafka_dlt-original-partition"] == "2"
    assert (taken.transport["partition"], taken.conversation_id) == (2, "customer-7")
    assert taken.broker_id == f"{dead}/0/0"


def test_what_is_committed_is_not_read_again_by_its_group_and_is_by_another(rig: KafkaTopics) -> None:
    _, dead = rig.pair()
    rig.publish(dead, [Sent(b"%d" % n) for n in range(5)])
    reader = ADAPTER.open_reader(rig.login(dead), Shard(dead, 0))
    taken = reader.read(5, 10.0)
    reader.acknowledge(taken[1:3])  # not the first of them: nothing can be committed
    reader.acknowledge(taken[:1])
    reader.close()

    assert ADAPTER.depth(rig.login(dead)) == 2
    assert [one.payload for one in read_all(rig, dead, 2)] == [b"3", b"4"]
    other = rig.login(dead, group="another")
    assert ADAPTER.depth(other) == 5
    assert [one.payload for one in ADAPTER.browse(other, 2)] == [b"0", b"1"]
    assert ADAPTER.depth(other) == 5


def test_a_record_that_the_broker_finds_too_large_is_refused_and_the_others_are_not(rig: KafkaTopics) -> None:
    original, _ = rig.pair()
    large = Outgoing(b"x" * 2_000_000, "text/plain", {}, {}, original, "m-1")
    small = Outgoing(b"x", "text/plain", {"tenant": "eu"}, {"PoisonAdmin-Message-Id": "2"}, original, "m-2")

    assert publish(rig, small, large, small) == [None, "BrokerRefused", None]
    assert len(rig.receive(original, 2)) == 2


def test_topics_are_found_those_of_dead_letters_first(rig: KafkaTopics) -> None:
    original, dead = rig.dead_letter([Sent(b"1"), Sent(b"2")])

    found = ADAPTER.queues(rig.login())

    seen = {one.name: one for one in found}
    assert (seen[dead].depth, seen[dead].why) == (2, "its name")
    assert seen[original].why == ""
    names = [one.name for one in found]
    assert names.index(dead) < names.index(original)
    assert not any(name.startswith("__") for name in names)


def test_a_topic_that_is_not_there_is_an_error(rig: KafkaTopics) -> None:
    with pytest.raises(BrokerError, match="no topic 'nowhere'"):
        ADAPTER.shards(rig.login("nowhere"))
    with pytest.raises(BrokerError, match="no topic 'nowhere'"):
        ADAPTER.open_reader(rig.login("nowhere"), Shard("nowhere", 0))


def test_a_reader_of_nothing_waits_no_longer_than_it_shall(rig: KafkaTopics) -> None:
    _, dead = rig.pair()
    reader = ADAPTER.open_reader(rig.login(dead), Shard(dead, 0))
    began = time.monotonic()

    assert reader.read(10, 0.2) == []
    rig.publish(dead, [Sent(b"late")])
    assert [one.payload for one in reader.read(10, 20.0)] == [b"late"]
    assert time.monotonic() - began < 30
    reader.close()
