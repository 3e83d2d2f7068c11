"""What every adapter does, shown with the real broker."""

import time

import pytest

from tests.brokers.exchange import outgoing, publish, read_all
from tests.brokers.messages import Sent
from tests.brokers.queues import Queues, until_back
from workers.brokers.contract import Adapter, BrokerError, Incoming, Login, Outgoing, Shard, adapter

SECONDS = 30.0


@pytest.fixture
def broker_adapter(queues: Queues) -> Adapter:
    """Return the adapter of the queues' broker."""
    return adapter(queues.kind)


def numbered(count: int) -> list[Sent]:
    """Return messages that can be told apart."""
    return [Sent(b"order %d" % n, message_id=f"m-{n}", headers={"tenant": "eu"}) for n in range(count)]


def test_each_dead_letter_is_read_once_with_where_it_comes_from(queues: Queues, broker_adapter: Adapter) -> None:
    original, dead = queues.dead_letter(numbered(300))

    taken = read_all(queues, dead, 300)

    assert sorted(one.payload for one in taken) == sorted(one.payload for one in numbered(300))
    assert {one.dead_letter.original_address for one in taken} == {original}
    assert {one.queue for one in taken} == {dead}
    assert {one.headers["tenant"] for one in taken} == {"eu"}
    assert all(one.transport["broker"] == queues.kind for one in taken)
    assert all((one.broker_id is not None) == queues.has_broker_ids for one in taken)
    assert broker_adapter.depth(queues.login(dead)) == 0


def test_what_is_not_acknowledged_is_given_out_again(queues: Queues, broker_adapter: Adapter) -> None:
    _, dead = queues.dead_letter(numbered(20))
    login = queues.login(dead, readers=1)
    (shard,) = broker_adapter.shards(login)
    reader = broker_adapter.open_reader(login, shard)
    first: list[Incoming] = []
    while len(first) < 20:
        first += reader.read(20, SECONDS)
    reader.acknowledge(first[:7])
    reader.close()

    again = read_all(queues, dead, 13, readers=1)

    assert sorted(one.payload for one in again) == sorted(one.payload for one in first[7:])
    assert {(one.broker_id, one.message_id) for one in again} == {(one.broker_id, one.message_id) for one in first[7:]}


def test_a_reader_that_finishes_leaves_the_rest_for_others(queues: Queues, broker_adapter: Adapter) -> None:
    _, dead = queues.dead_letter(numbered(50))
    login = queues.login(dead, readers=1)
    (shard,) = broker_adapter.shards(login)
    reader = broker_adapter.open_reader(login, shard)
    taken = reader.read(10, SECONDS)
    reader.finish()
    while some := reader.read(100, 0.2):
        taken += some
    reader.acknowledge(taken)
    reader.close()

    rest = read_all(queues, dead, 50 - len(taken), readers=1) if len(taken) < 50 else []

    assert not any(one.is_redelivered for one in rest)
    assert sorted(one.payload for one in [*taken, *rest]) == sorted(one.payload for one in numbered(50))


def test_a_preview_leaves_everything_where_it_is(queues: Queues, broker_adapter: Adapter) -> None:
    _, dead = queues.dead_letter(numbered(5))
    login = queues.login(dead)

    seen = [*broker_adapter.browse(login, 3)]

    assert len({one.payload for one in seen}) == 3
    assert until_back(queues, dead, 5) == 5
    assert broker_adapter.depth(login) == 5
    assert len(read_all(queues, dead, 5)) == 5


def test_what_is_returned_is_what_was_sent(queues: Queues) -> None:
    original, dead = queues.dead_letter(numbered(200))
    taken = read_all(queues, dead, 200)

    batch = [outgoing(one, number) for number, one in enumerate(taken, start=1)]
    assert publish(queues, *batch) == [None] * 200

    received = queues.receive(original, 200)
    assert sorted(one.payload for one in received) == sorted(one.payload for one in numbered(200))
    assert {one.headers["tenant"] for one in received} == {"eu"}
    own = {"tenant", "PoisonAdmin-Message-Id", "PoisonAdmin-Attempt"}
    assert {name for one in received for name in one.headers} == own
    assert {int(one.headers["PoisonAdmin-Message-Id"]) for one in received} == set(range(1, 201))


def test_what_is_dead_lettered_again_says_whose_return_it_was(queues: Queues) -> None:
    _, dead = queues.dead_letter(numbered(1))
    (taken,) = read_all(queues, dead, 1)
    former = taken.dead_letter.came_back

    assert former is None
    back = outgoing(taken, 77, route=dead)
    assert publish(queues, back) == [None]
    (again,) = read_all(queues, dead, 1)
    assert again.dead_letter.came_back is not None
    assert (again.dead_letter.came_back.message_id, again.dead_letter.came_back.attempt_number) == (77, 1)


def test_a_message_that_has_nowhere_to_go_is_a_failure_and_no_other_is(queues: Queues) -> None:
    original, dead = queues.dead_letter(numbered(40))
    taken = read_all(queues, dead, 40)
    gone = {3, 17, 39}

    batch = [outgoing(one, n, route="nowhere" if n in gone else original) for n, one in enumerate(taken)]
    failed = publish(queues, *batch)

    assert {n for n, one in enumerate(failed) if one is not None} == gone
    assert {one for one in failed if one} == {"Unroutable"}
    assert len(queues.receive(original, 37)) == 37


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_000_000])
def test_a_body_of_any_size_comes_back_byte_by_byte(queues: Queues, size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + b"\x00\xff"[: size % 256]
    original, dead = queues.dead_letter([Sent(payload)])

    (taken,) = read_all(queues, dead, 1)

    assert taken.payload == payload
    assert publish(queues, outgoing(taken)) == [None]
    (received,) = queues.receive(original, 1)
    assert received.payload == payload


def test_a_broker_that_is_not_there_is_an_error_for_readers_and_a_failure_for_messages(
    queues: Queues, broker_adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Kafka's client tries again until its time is over.
    monkeypatch.setattr("workers.brokers.kafka.connection.ANSWER_SECONDS", 1.0)
    scheme = queues.login().url.partition(":")[0]
    nobody = Login(f"{scheme}://127.0.0.1:1", "guest", "guest", {"queues": ["q"], "topics": ["q"], "group": "g"})

    with pytest.raises(BrokerError):
        broker_adapter.depth(nobody)
    with pytest.raises(BrokerError):
        broker_adapter.open_reader(nobody, Shard("q")).read(1, 1.0)
    batch = [Outgoing(b"1", "text/plain", {}, {}, "q", "m-1")]
    publisher = broker_adapter.open_publisher(nobody)
    (failure,) = publisher.publish(batch, 1.0)
    publisher.close()
    assert failure is not None
    assert failure.exception_class == "NotSent"


def test_a_guarded_address_is_not_connected_to(
    queues: Queues, broker_adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POISONADMIN_ALLOW_LOOPBACK", "0")

    with pytest.raises(BrokerError, match="loopback"):
        broker_adapter.depth(queues.login("q"))


def test_an_idle_queue_gives_nothing_within_the_time(queues: Queues, broker_adapter: Adapter) -> None:
    _, dead = queues.dead_letter([])
    login = queues.login(dead, readers=1)
    (shard, *_) = broker_adapter.shards(login) or [Shard(dead)]
    reader = broker_adapter.open_reader(login, shard)
    began = time.monotonic()

    assert reader.read(10, 0.3) == []
    assert time.monotonic() - began >= 0.25
    reader.close()
