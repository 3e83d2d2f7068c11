"""What every adapter does, shown with the real broker."""

import json
import time
from collections.abc import Sequence

import pytest

from tests.brokers.chosen import chosen_brokers
from tests.brokers.received import Sent
from tests.brokers.rigs import RIGS, Rig
from workers.brokers.contract import Adapter, BrokerError, Login, Outgoing, Shard, Taken
from workers.brokers.registry import adapter

SECONDS = 30.0


@pytest.fixture(params=[name for name, (kind, _) in RIGS.items() if kind in chosen_brokers()])
def rig(request: pytest.FixtureRequest) -> Rig:
    """Return the broker with consumers."""
    kind, made = RIGS[request.param]
    return made(request.getfixturevalue(kind))


@pytest.fixture
def broker_adapter(rig: Rig) -> Adapter:
    """Return the adapter of the rig's kind."""
    return adapter(rig.kind)


def numbered(count: int) -> list[Sent]:
    """Return messages that can be told apart."""
    return [Sent(b"order %d" % n, message_id=f"m-{n}", headers={"tenant": "eu"}) for n in range(count)]


def read_all(found: Adapter, login: Login, count: int, *, acknowledging: bool = True) -> list[Taken]:
    """Read all shards until so many messages have come or nothing more comes."""
    taken: list[Taken] = []
    for shard in found.shards(login):
        reader = found.open_reader(login, shard)
        while len(taken) < count and (some := reader.read(500, SECONDS)):
            taken += some
            if acknowledging:
                reader.acknowledge(some)
        reader.close()
        if len(taken) >= count:
            break
    return taken


def outgoing(taken: Taken, number: int = 1, **changes: object) -> Outgoing:
    """Return a message on its way back."""
    fields = {
        "payload": taken.payload,
        "content_type": taken.content_type,
        "headers": taken.headers,
        "own_headers": {"PoisonAdmin-Message-Id": str(number), "PoisonAdmin-Attempt": "1"},
        "route": taken.dead_letter.original_address,
        "message_id": taken.message_id or f"made-{number}",
        "transport": json.loads(json.dumps(taken.transport)),
    }
    return Outgoing(**(fields | changes))  # type: ignore[arg-type]


def publish(found: Adapter, login: Login, batch: Sequence[Outgoing]) -> list[str | None]:
    """Publish and return the class of each failure."""
    publisher = found.open_publisher(login)
    try:
        results = publisher.publish(batch, SECONDS)
    finally:
        publisher.close()
    return [None if one is None else one.exception_class for one in results]


def test_each_dead_letter_is_read_once_with_where_it_comes_from(rig: Rig, broker_adapter: Adapter) -> None:
    original, dead = rig.dead_letter(numbered(300))

    taken = read_all(broker_adapter, rig.login(dead), 300)

    assert sorted(one.payload for one in taken) == sorted(one.payload for one in numbered(300))
    assert {one.dead_letter.original_address for one in taken} == {original}
    assert {one.queue for one in taken} == {dead}
    assert {one.headers["tenant"] for one in taken} == {"eu"}
    assert all(one.transport["broker"] == rig.kind for one in taken)
    assert all((one.broker_id is not None) == rig.has_broker_ids for one in taken)
    assert broker_adapter.depth(rig.login(dead)) == 0


def test_what_is_not_acknowledged_is_given_out_again(rig: Rig, broker_adapter: Adapter) -> None:
    _, dead = rig.dead_letter(numbered(20))
    login = rig.login(dead, readers=1)
    (shard,) = broker_adapter.shards(login)
    reader = broker_adapter.open_reader(login, shard)
    first: list[Taken] = []
    while len(first) < 20:
        first += reader.read(20, SECONDS)
    reader.acknowledge(first[:7])
    reader.close()

    again = read_all(broker_adapter, login, 13)

    assert sorted(one.payload for one in again) == sorted(one.payload for one in first[7:])
    assert {(one.broker_id, one.message_id) for one in again} == {(one.broker_id, one.message_id) for one in first[7:]}


def test_a_reader_that_finishes_leaves_the_rest_for_others(rig: Rig, broker_adapter: Adapter) -> None:
    _, dead = rig.dead_letter(numbered(50))
    login = rig.login(dead, readers=1)
    (shard,) = broker_adapter.shards(login)
    reader = broker_adapter.open_reader(login, shard)
    taken = reader.read(10, SECONDS)
    reader.finish()
    while some := reader.read(100, 0.2):
        taken += some
    reader.acknowledge(taken)
    reader.close()

    rest = read_all(broker_adapter, login, 50 - len(taken)) if len(taken) < 50 else []

    assert not any(one.is_redelivered for one in rest)
    assert sorted(one.payload for one in [*taken, *rest]) == sorted(one.payload for one in numbered(50))


def test_a_look_leaves_everything_where_it_is(rig: Rig, broker_adapter: Adapter) -> None:
    _, dead = rig.dead_letter(numbered(5))
    login = rig.login(dead)

    seen = broker_adapter.browse(login, 3)

    assert len({one.payload for one in seen}) == 3
    assert broker_adapter.depth(login) == 5
    assert len(read_all(broker_adapter, login, 5)) == 5


def test_what_is_returned_is_what_was_sent(rig: Rig, broker_adapter: Adapter) -> None:
    original, dead = rig.dead_letter(numbered(200))
    taken = read_all(broker_adapter, rig.login(dead), 200)

    batch = [outgoing(one, number) for number, one in enumerate(taken, start=1)]
    assert publish(broker_adapter, rig.login(), batch) == [None] * 200

    received = rig.receive(original, 200)
    assert sorted(one.payload for one in received) == sorted(one.payload for one in numbered(200))
    assert {one.headers["tenant"] for one in received} == {"eu"}
    own = {"tenant", "PoisonAdmin-Message-Id", "PoisonAdmin-Attempt"}
    assert {name for one in received for name in one.headers} == own
    assert {int(one.headers["PoisonAdmin-Message-Id"]) for one in received} == set(range(1, 201))


def test_what_is_dead_lettered_again_says_whose_return_it_was(rig: Rig, broker_adapter: Adapter) -> None:
    _, dead = rig.dead_letter(numbered(1))
    (taken,) = read_all(broker_adapter, rig.login(dead), 1)
    former = taken.dead_letter.came_back

    assert former is None
    back = outgoing(taken, 77, route=dead)
    assert publish(broker_adapter, rig.login(), [back]) == [None]
    (again,) = read_all(broker_adapter, rig.login(dead), 1)
    assert again.dead_letter.came_back is not None
    assert (again.dead_letter.came_back.message_id, again.dead_letter.came_back.attempt_number) == (77, 1)


def test_a_message_that_has_nowhere_to_go_is_a_failure_and_no_other_is(rig: Rig, broker_adapter: Adapter) -> None:
    original, dead = rig.dead_letter(numbered(40))
    taken = read_all(broker_adapter, rig.login(dead), 40)
    gone = {3, 17, 39}

    batch = [outgoing(one, n, route="nowhere" if n in gone else original) for n, one in enumerate(taken)]
    failed = publish(broker_adapter, rig.login(), batch)

    assert {n for n, one in enumerate(failed) if one is not None} == gone
    assert {one for one in failed if one} == {"Unroutable"}
    assert len(rig.receive(original, 37)) == 37


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_000_000])
def test_a_body_of_any_size_comes_back_byte_by_byte(rig: Rig, broker_adapter: Adapter, size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + b"\x00\xff"[: size % 256]
    original, dead = rig.dead_letter([Sent(payload)])

    (taken,) = read_all(broker_adapter, rig.login(dead), 1)

    assert taken.payload == payload
    assert publish(broker_adapter, rig.login(), [outgoing(taken)]) == [None]
    (received,) = rig.receive(original, 1)
    assert received.payload == payload


def test_a_broker_that_is_not_there_is_an_error_for_readers_and_a_failure_for_messages(
    rig: Rig, broker_adapter: Adapter
) -> None:
    scheme = rig.login().url.partition(":")[0]
    nobody = Login(f"{scheme}://127.0.0.1:1", "guest", "guest", {"queues": ["q"], "topics": ["q"], "group": "g"})

    with pytest.raises(BrokerError):
        broker_adapter.depth(nobody)
    with pytest.raises(BrokerError):
        broker_adapter.open_reader(nobody, Shard("q")).read(1, 5.0)
    batch = [Outgoing(b"1", "text/plain", {}, {}, "q", "m-1")]
    publisher = broker_adapter.open_publisher(nobody)
    (failure,) = publisher.publish(batch, 5.0)
    publisher.close()
    assert failure is not None
    assert failure.exception_class == "NotSent"


def test_a_guarded_address_is_not_connected_to(
    rig: Rig, broker_adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POISONADMIN_ALLOW_LOOPBACK", "0")

    with pytest.raises(BrokerError, match="loopback"):
        broker_adapter.depth(rig.login("q"))


def test_an_idle_queue_gives_nothing_within_the_time(rig: Rig, broker_adapter: Adapter) -> None:
    _, dead = rig.dead_letter([])
    login = rig.login(dead, readers=1)
    (shard, *_) = broker_adapter.shards(login) or [Shard(dead)]
    reader = broker_adapter.open_reader(login, shard)
    began = time.monotonic()

    assert reader.read(10, 0.3) == []
    assert time.monotonic() - began >= 0.25
    reader.close()
