"""What is Kafka's own: keys, partitions, headers that are bytes, tombstones, offsets, and who stamps what."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from poisonadmin.groups.domain.failures import fingerprint, from_dead_letter
from tests.brokers.exchange import outgoing, publish, read_all
from tests.brokers.kafka_topics import KafkaTopics, request_of
from tests.brokers.messages import Sent
from tests.brokers.proxy import proxy_to
from workers.brokers.contract import BrokerError, Login, Outgoing, Shard
from workers.brokers.kafka.adapter import ADAPTER, KafkaReader
from workers.brokers.sources import check_broker

RUNS_WITH = ("kafka",)


def test_key_partition_and_bytes_of_headers_come_back(queues: KafkaTopics) -> None:
    headers = {"tenant": "eu", "raw": b"\x00\xff", "__TypeId__": "com.example.Order", "none": None}
    sent = [Sent(b"%d" % n, headers=headers, properties={"key": b"k\xff%d" % n, "partition": n % 3}) for n in range(9)]
    original, dead = queues.dead_letter(sent)
    taken = read_all(queues, dead, 9)

    assert publish(queues, *(outgoing(one, number) for number, one in enumerate(taken, start=1))) == [None] * 9

    received = queues.receive(original, 9)
    found = {one.payload: (one.properties["key"], one.properties["partition"]) for one in received}
    assert found == {one.payload: (one.properties["key"], one.properties["partition"]) for one in sent}
    records = queues._consume(original, None, "raw")  # `receive` shows headers as texts
    back = [one for one in records if ("PoisonAdmin-Attempt", b"1") in (one.headers() or [])]
    own = {"PoisonAdmin-Message-Id", "PoisonAdmin-Attempt"}
    for one in back:
        kept = [(name, value) for name, value in one.headers() or [] if name not in own]
        assert kept == [("tenant", b"eu"), ("raw", b"\x00\xff"), ("__TypeId__", b"com.example.Order"), ("none", None)]


def test_a_record_without_a_value_comes_back_without_one(queues: KafkaTopics) -> None:
    original, dead = queues.pair()
    queues.publish(dead, [Sent(None, headers={"kafka_dlt-original-topic": original}, properties={"key": b"k"})])  # type: ignore[arg-type]
    (taken,) = read_all(queues, dead, 1)

    assert (taken.payload, taken.transport["is_tombstone"]) == (b"", True)
    assert publish(queues, outgoing(taken)) == [None]
    (record,) = queues._consume(original, 1, "tombstone")
    assert (record.key(), record.value()) == (b"k", None)


def test_a_dead_letter_of_spring_tells_its_cause(queues: KafkaTopics) -> None:
    original, dead = queues.dead_letter([Sent(b"1", properties={"partition": 2, "key": b"customer-7"})])
    (taken,) = read_all(queues, dead, 1)

    found = taken.dead_letter
    assert (found.cause_class, found.original_address) == ("com.example.orders.NoSuchCustomer", original)
    assert found.exception_class == "org.springframework.kafka.listener.ListenerExecutionFailedException"
    assert found.failed_at is not None
    assert taken.headers["kafka_dlt-original-partition"] == "2"
    assert (taken.transport["partition"], taken.conversation_id) == (2, "customer-7")
    assert taken.broker_id == f"{dead}/0/0"


def test_what_is_committed_is_not_read_again_by_its_group_and_is_by_another(queues: KafkaTopics) -> None:
    _, dead = queues.pair()
    queues.publish(dead, [Sent(b"%d" % n) for n in range(5)])
    reader = ADAPTER.open_reader(queues.login(dead), Shard(dead, 0))
    taken = reader.read(5, 10.0)
    reader.acknowledge(taken[1:3])  # not the first of them: nothing can be committed
    reader.acknowledge(taken[:1])
    reader.close()

    assert ADAPTER.depth(queues.login(dead)) == 2
    assert [one.payload for one in read_all(queues, dead, 2)] == [b"3", b"4"]
    other = queues.login(dead, group="another")
    assert ADAPTER.depth(other) == 5
    assert [one.payload for one in ADAPTER.browse(other, 2)] == [b"0", b"1"]
    assert ADAPTER.depth(other) == 5


def test_records_are_grouped_by_their_failures_as_they_would_be_here(queues: KafkaTopics) -> None:
    original, dead = queues.pair()
    causes = ["shop.NoStock"] * 3 + ["shop.NoCustomer"] * 5 + ["shop.NoStock"]
    headers = [
        {"kafka_dlt-original-topic": original, "kafka_dlt-exception-cause-fqcn": cause}
        | {"kafka_dlt-exception-message": f"order {number}"}
        for number, cause in enumerate(causes)
    ]
    queues.publish(dead, [Sent(b"%d" % number, headers=one) for number, one in enumerate(headers)])
    login = queues.login(dead)
    config = {"url": login.url, "topics": [dead], "group": "observer"}
    found = check_broker("groups", "kafka", config, {"username": login.username, "password": login.password})

    assert [(one.title, one.count) for one in found.groups] == [("NoCustomer: order …", 5), ("NoStock: order …", 4)]
    assert (found.depth, found.groups_of) == (9, 9)
    taken = read_all(queues, dead, 9)
    assert {one.fingerprint for one in found.groups} == {fingerprint(from_dead_letter(t.dead_letter)) for t in taken}
    first, last = (f(t.dead_letter.failed_at for t in taken if t.dead_letter.failed_at) for f in (min, max))
    assert {first, last} <= {at for one in found.groups for at in (one.first_failed_at, one.last_failed_at)}


def test_many_partitions_are_observed_as_soon_as_those_that_hold_something(queues: KafkaTopics) -> None:
    topic = f"wide-{time.time_ns()}"
    queues.create(topic, 100)
    for n in (3, 42, 97):
        queues.publish(topic, [Sent(b"%d" % n, properties={"partition": n})] * 2)
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("workers.brokers.kafka.adapter.KafkaReader", noting(read))
        found = [one.payload for one in ADAPTER.browse(queues.login(topic), 5)]
    assert (found, read) == ([b"3", b"3", b"42", b"42", b"97"], [3, 42, 97])


def noting(read: list[int]) -> Callable[[Login, str, int], KafkaReader]:
    """Return a reader that notes which partitions are read."""

    def reader(login: Login, topic: str, partition: int) -> KafkaReader:
        read.append(partition)
        return KafkaReader(login, topic, partition)

    return reader


def test_a_record_that_the_broker_finds_too_large_is_refused_and_the_others_are_not(queues: KafkaTopics) -> None:
    original, _ = queues.pair()
    large = Outgoing(b"x" * 2_000_000, "text/plain", {}, {}, original, "m-1")
    small = Outgoing(b"x", "text/plain", {"tenant": "eu"}, {"PoisonAdmin-Message-Id": "2"}, original, "m-2")

    assert publish(queues, small, large, small) == [None, "BrokerRefused", None]
    assert len(queues.receive(original, 2)) == 2


def test_topics_are_found_those_of_dead_letters_first(queues: KafkaTopics) -> None:
    original, dead = queues.dead_letter([Sent(b"1"), Sent(b"2")])

    found = ADAPTER.queues(queues.login())

    seen = {one.name: one for one in found}
    assert (seen[dead].depth, seen[dead].why) == (2, "its name")
    assert seen[original].why == ""
    names = [one.name for one in found]
    assert names.index(dead) < names.index(original)
    assert not any(name.startswith("__") for name in names)


def test_a_topic_that_is_not_there_is_an_error(queues: KafkaTopics) -> None:
    with pytest.raises(BrokerError, match="no topic 'nowhere'"):
        ADAPTER.shards(queues.login("nowhere"))
    with pytest.raises(BrokerError, match="no topic 'nowhere'"):
        ADAPTER.open_reader(queues.login("nowhere"), Shard("nowhere", 0))


def test_a_reader_of_nothing_waits_no_longer_than_it_shall(queues: KafkaTopics) -> None:
    _, dead = queues.pair()
    reader = ADAPTER.open_reader(queues.login(dead), Shard(dead, 0))
    began = time.monotonic()

    assert reader.read(10, 0.2) == []
    queues.publish(dead, [Sent(b"late")])
    assert [one.payload for one in reader.read(10, 20.0)] == [b"late"]
    assert time.monotonic() - began < 30
    reader.close()


def test_what_was_sent_and_not_answered_may_be_there(queues: KafkaTopics) -> None:
    topic, _ = queues.pair()
    server = queues.server
    batch = [Outgoing(b"%d" % n, "text/plain", {}, {}, topic, f"m-{n}") for n in range(5)]
    with proxy_to(server.behind_proxy, port=server.proxy_port) as proxy, ThreadPoolExecutor(1) as other:
        publisher = ADAPTER.open_publisher(Login(f"kafka://127.0.0.1:{proxy.port}"))
        assert publisher.publish(batch[:1], 20.0) == [None]
        proxy.hold_answers_to(request_of(0))  # Produce
        publishing = other.submit(publisher.publish, batch, 3.0)
        assert proxy.is_holding.wait(20.0)
        proxy.close()  # the client would send them again, and cannot
        failures = publishing.result()
        publisher.close()

    assert [one and one.exception_class for one in failures] == ["ConfirmLost"] * 5
