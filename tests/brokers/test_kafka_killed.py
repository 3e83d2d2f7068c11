"""Kafka killed with `kill -9` in the middle of things: nothing is lost, and nothing is invented."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.brokers.kafka import Kafka, running_kafka
from tests.brokers.kafka_rig import KafkaTopics
from tests.brokers.killing import a_thousand, drain_while_it_is_killed, read_all, return_while_it_is_killed, stored
from workers.brokers.registry import adapter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Yield a Kafka that may be killed."""
    with running_kafka(tmp_path_factory.mktemp("mortal")) as server:
        yield server


def test_a_broker_killed_while_it_is_drained(mortal: Kafka, test_database_url: str) -> None:
    rig = KafkaTopics(mortal)
    messages = a_thousand()
    _, dead = rig.dead_letter(messages)

    drained = drain_while_it_is_killed(mortal, rig, dead, test_database_url, kill_at=300)

    # What was stored and not acknowledged came again under the same id: the merge tells it from a new one.
    assert set(stored()) == {one.payload for one in messages}
    assert drained.staged == stored().total()
    assert adapter("kafka").depth(rig.login(dead)) == 0


def test_a_broker_killed_while_messages_are_returned(mortal: Kafka) -> None:
    rig = KafkaTopics(mortal)
    messages = a_thousand()
    original, dead = rig.dead_letter(messages)
    taken = read_all(rig, dead, 1000)
    assert len(taken) == 1000

    unconfirmed = return_while_it_is_killed(mortal, rig, taken)

    received = rig.receive(original, rig.depth(original))  # all that came after the first delivery
    assert unconfirmed > 0
    assert {one.payload for one in received} == {one.payload for one in messages}
    # Only what was not confirmed may be there twice, and each says who it is.
    times = Counter(one.headers["PoisonAdmin-Message-Id"] for one in received)
    assert set(times) == {str(number) for number in range(1, 1001)}
    assert len(received) - 1000 <= unconfirmed
