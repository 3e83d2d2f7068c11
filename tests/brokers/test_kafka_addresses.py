"""Where Kafka's client connects to: wherever the brokers say that they are, but to no forbidden address."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.brokers.exchange import outgoing, publish
from tests.brokers.kafka import Kafka
from tests.brokers.kafka_topics import KafkaTopics, request_of
from tests.brokers.messages import Sent
from tests.brokers.proxy import proxy_to
from tests.brokers.server import running
from workers.brokers.contract import BrokerError, Login, Outgoing, Shard
from workers.brokers.kafka.adapter import ADAPTER
from workers.brokers.kafka.resolver import give_servers, refusal

RUNS_WITH = ("kafka",)

REFUSAL = "127.0.0.2 is loopback, and POISONADMIN_ALLOWED_NETWORKS does not allow it"
# The client connects to an advertised address within milliseconds.
_UNTIL_CONNECTED_SECONDS = 1.0


@pytest.fixture(autouse=True)
def only_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permit 127.0.0.1 alone."""
    monkeypatch.setenv("POISONADMIN_ALLOW_LOOPBACK", "0")
    monkeypatch.setenv("POISONADMIN_ALLOWED_NETWORKS", "127.0.0.1/32")


@contextlib.contextmanager
def nobody_connects_to(host: str, port: int) -> Iterator[None]:
    """Listen there, and fail when somebody has connected in the meantime or does so a moment later."""
    with socket.create_server((host, port)) as there:
        there.settimeout(_UNTIL_CONNECTED_SECONDS)
        yield
        with pytest.raises(TimeoutError):
            there.accept()


def returned(login: Login, topic: str) -> None:
    """Publish to the topic; raise `BrokerError` with what the result says."""
    publisher = ADAPTER.open_publisher(login)
    [failure] = publisher.publish([Outgoing(b"1", "text/plain", {}, {}, topic, "m-1")], 5.0)
    publisher.close()
    if failure is not None:
        raise BrokerError(failure.message or "")


def until_coordinated(login: Login) -> None:
    """Return when the brokers of a new cluster agree about who keeps the offsets."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        with contextlib.suppress(BrokerError):
            ADAPTER.depth(login)
            return


USES: dict[str, Callable[[Login, str], object]] = {
    "shards": lambda login, _: ADAPTER.shards(login),
    "depth": lambda login, _: ADAPTER.depth(login),
    "queues": lambda login, _: ADAPTER.queues(login),
    "browse": lambda login, _: next(ADAPTER.browse(login, 1), None),
    "read": lambda login, topic: ADAPTER.open_reader(login, Shard(topic, partition=0)),
    "publish": returned,
}


@pytest.mark.parametrize("use", USES)
def test_a_broker_that_says_it_is_at_a_forbidden_address_is_not_followed_there(queues: KafkaTopics, use: str) -> None:
    _, dead = queues.dead_letter([Sent(b"1")])
    server = queues.server
    login = Login(f"kafka://127.0.0.1:{server.elsewhere}", options={"topics": [dead]})

    with nobody_connects_to(server.other_host, server.other_port), pytest.raises(BrokerError, match=REFUSAL):
        USES[use](login, dead)


@pytest.mark.parametrize("use", ["depth", "read"])
def test_a_broker_that_names_a_forbidden_address_after_good_ones_is_not_followed_there(
    queues: KafkaTopics, use: str
) -> None:
    _, dead = queues.dead_letter([Sent(b"1")])
    server = queues.server
    login = Login(f"kafka://127.0.0.1:{server.proxy_port}", options={"topics": [dead]})

    with (
        proxy_to(server.behind_proxy, port=server.proxy_port) as proxy,
        nobody_connects_to("127.0.0.2", server.proxy_port),
    ):
        assert ADAPTER.shards(login)
        proxy.change_answers_from(request_of(10), b"127.0.0.1", b"127.0.0.2")  # FindCoordinator
        with pytest.raises(BrokerError, match=REFUSAL):
            USES[use](login, dead)


def test_the_client_itself_connects_to_no_forbidden_address(queues: KafkaTopics) -> None:
    there = queues.server.other_port
    client = AdminClient({"log_level": 0, "error_cb": lambda _: None})

    with nobody_connects_to("127.0.0.2", there):
        give_servers(client, f"127.0.0.2:{there}")
        with pytest.raises(Exception, match="metadata"):
            client.list_topics(timeout=1)
    assert refusal(client) == f"127.0.0.2: {REFUSAL}"


def test_brokers_of_one_cluster_that_are_permitted_are_all_followed(tmp_path: Path) -> None:
    homes = [tmp_path / "first", tmp_path / "second"]
    for home in homes:
        home.mkdir()
    first = Kafka(homes[0])
    with running(first), running(Kafka(homes[1], first)) as second:
        topics = KafkaTopics(first)
        topic = f"spread-{time.time_ns()}"
        topics.create(topic, 4)
        known = AdminClient({"bootstrap.servers": first.bootstrap}).list_topics(timeout=20)
        assert {one.port for one in known.brokers.values()} == {first.port, second.port}
        assert {one.leader for one in known.topics[topic].partitions.values()} == {1, 2}
        origin = [("kafka_dlt-original-topic", topic), ("kafka_dlt-original-partition", (2).to_bytes(4))]
        for n in range(4):
            topics.publish(topic, [Sent(b"%d" % n, headers=dict(origin), properties={"partition": n})])
        login = topics.login(topic)
        until_coordinated(login)

        taken = [*ADAPTER.browse(login, 4)]
        for shard in ADAPTER.shards(login):
            reader = ADAPTER.open_reader(login, shard)
            reader.acknowledge(reader.read(1, 30.0))
            reader.close()

        assert sorted(one.payload for one in taken) == [b"0", b"1", b"2", b"3"]
        assert ADAPTER.depth(login) == 0
        assert publish(topics, *(outgoing(one, n) for n, one in enumerate(taken, start=1))) == [None] * 4
        back = topics.receive(topic, 4)
        assert sorted((one.payload, one.properties["partition"]) for one in back) == [(b"%d" % n, 2) for n in range(4)]
