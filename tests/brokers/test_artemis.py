"""What is Artemis's own: text and bytes, topics, its dead-letter queues, properties that would do something."""

import itertools
import json
import time

import pytest

from poisonadmin.policies.domain.policy import Policy
from poisonadmin.policies.domain.retry_schedule import delay_ms
from tests.brokers.artemis_queues import ArtemisQueues
from tests.brokers.exchange import outgoing, publish, read_all
from tests.brokers.messages import Received, Sent
from workers.brokers.artemis.adapter import ADAPTER
from workers.brokers.artemis.connection import frame_bytes
from workers.brokers.contract import BrokerError, Login, Outgoing

RUNS_WITH = ("artemis",)


def there_and_back(queues: ArtemisQueues, sent: Sent) -> Received:
    """Return what a consumer gets of a message that was dead-lettered, drained and returned."""
    original, dead = queues.dead_letter([sent])
    (taken,) = read_all(queues, dead, 1)
    assert publish(queues, outgoing(taken)) == [None]
    (received,) = queues.receive(original, 1)
    return received


def type_of(queues: ArtemisQueues, queue: str) -> list[int]:
    """Return the kind of each message's body, as Artemis keeps it: 3 is a text, 4 bytes."""
    return [one["type"] for one in queues.manage(f"queue.{queue}", "listMessages", "")]


@pytest.mark.parametrize(("text", "kind"), [(True, 3), (False, 4)])
def test_a_text_comes_back_as_a_text_and_bytes_as_bytes(queues: ArtemisQueues, text: bool, kind: int) -> None:
    original, dead = queues.dead_letter([Sent("Grüße".encode(), properties={"text": text})])
    (taken,) = read_all(queues, dead, 1)
    assert publish(queues, outgoing(taken)) == [None]

    assert type_of(queues, original) == [kind]


def test_what_the_producer_set_comes_back(queues: ArtemisQueues) -> None:
    properties = {
        "correlation-id": "c:1\n2",
        "content-type": "application/json",
        "priority": "7",
        "reply-to": "answers",
        "type": "order",
        "JMSXGroupID": "customer-7",
    }
    headers = {"tenant": "eu", "odd": "a\\b:c\r\nd", "ümlaut": "ja"}

    received = there_and_back(queues, Sent(b"{}", headers=headers, properties=properties))

    told = received.properties
    assert {name: received.headers[name] for name in headers} == headers
    assert (told["correlation-id"], told["content-type"], told["priority"]) == ("c:1\n2", "application/json", "7")
    assert (told["reply-to"], told["type"], told["_AMQ_GROUP_ID"]) == ("answers", "order", "customer-7")
    assert told["persistent"] == "true"


def test_a_message_with_a_duplicate_id_is_not_dropped_when_it_is_returned(queues: ArtemisQueues) -> None:
    received = there_and_back(queues, Sent(b"1", headers={"_AMQ_DUPL_ID": f"once-{time.time_ns()}"}))

    assert received.payload == b"1"
    assert "_AMQ_DUPL_ID" not in received.headers


def test_a_dead_letter_tells_where_it_was_and_is_the_same_whenever_it_is_read(queues: ArtemisQueues) -> None:
    original, dead = queues.dead_letter([Sent(b"1", properties={"JMSXGroupID": "g-1"})])

    (first,) = ADAPTER.browse(queues.login(dead), 1)
    (second,) = read_all(queues, dead, 1)

    assert first.broker_id == second.broker_id
    assert first.transport == second.transport
    found = second.dead_letter
    assert (found.original_address, found.reason, second.conversation_id) == (original, "undelivered", "g-1")
    assert [(move.queue, move.to) for move in found.moves] == [(original, dead)]
    assert second.headers["_AMQ_ORIG_ADDRESS"] == original
    assert second.headers["_AMQ_ORIG_QUEUE"] == original


def test_a_subscriber_s_message_returns_to_that_subscriber_alone(queues: ArtemisQueues) -> None:
    topic = f"news-{time.time_ns()}"
    dead = f"{topic}.dlq"
    queues.settings(topic, maxDeliveryAttempts=1, deadLetterAddress=dead)
    queues.create(dead)
    for subscriber in ("a", "b"):
        queues.create(f"{topic}.{subscriber}", address=topic, routing="MULTICAST")
    queues.publish(topic, [Sent(b"1")], routing="MULTICAST")
    queues.fail(f"{topic}::{topic}.a", 1)
    (taken,) = read_all(queues, dead, 1)

    assert taken.transport["queue"] == f"{topic}::{topic}.a"
    assert taken.dead_letter.original_address == topic
    assert publish(queues, outgoing(taken)) == [None]
    assert (queues.depth(f"{topic}.a"), queues.depth(f"{topic}.b")) == (1, 1)


def test_a_dead_letter_queue_that_artemis_made_is_drained_by_its_name_or_its_full_name(queues: ArtemisQueues) -> None:
    name = f"stocks-{time.time_ns()}"
    settings = {"maxDeliveryAttempts": 1, "deadLetterAddress": f"{name}.DLA", "autoCreateDeadLetterResources": True}
    queues.settings(name, **settings)
    queues.create(name)
    queues.publish(name, [Sent(b"1"), Sent(b"2")])
    queues.fail(name, 2)

    own, full = f"DLQ.{name}", f"{name}.DLA::DLQ.{name}"
    assert ADAPTER.depth(queues.login(own)) == ADAPTER.depth(queues.login(full)) == 2
    assert sorted(one.payload for one in read_all(queues, full, 2)) == [b"1", b"2"]
    why = {one.name: one.why for one in ADAPTER.queues(queues.login())}[full]
    assert why == f"dead letters of {name} go here"


def test_a_topic_with_subscribers_is_a_way_and_one_without_is_none(queues: ArtemisQueues) -> None:
    topic = f"topic-{time.time_ns()}"
    queues.create(f"{topic}.only", address=topic, routing="MULTICAST")
    one = Outgoing(b"1", "text/plain", {"tenant": "eu"}, {"PoisonAdmin-Message-Id": "1"}, topic, "m-1")

    assert publish(queues, one) == [None]
    assert queues.depth(f"{topic}.only") == 1
    queues.delete(f"{topic}.only")
    assert publish(queues, one) == ["Unroutable"]


def test_headers_cannot_end_their_line_or_their_frame() -> None:
    raw = frame_bytes("SEND", {"a\nreceipt:1": "b\0c\r\n:d\\", "plain": "x"}, b"body")

    assert raw == b"SEND\na\\nreceipt\\c1:b\xef\xbf\xbdc\\r\\n\\cd\\\\\nplain:x\n\nbody\x00"


def test_headers_that_would_steer_the_broker_are_left_out(queues: ArtemisQueues) -> None:
    headers = {"destination": "elsewhere", "transaction": "t", "_AMQ_SCHED_DELIVERY": "99999999999999", "tenant": "eu"}
    name, _ = queues.pair()
    one = Outgoing(
        b"1", "text/plain", headers | {"poisonadmin-attempt": "9"}, {"PoisonAdmin-Attempt": "1"}, name, "m-1"
    )

    assert publish(queues, one) == [None]
    (received,) = queues.receive(name, 1)
    assert received.headers == {"tenant": "eu", "PoisonAdmin-Attempt": "1"}


def test_a_login_that_is_refused_is_said_without_the_password(queues: ArtemisQueues) -> None:
    login = Login(queues.login().url, "admin", "hunter2", {"queues": ["DLQ"]})
    with pytest.raises(BrokerError) as refused:
        ADAPTER.depth(login)
    assert "hunter2" not in str(refused.value)


def test_artemis_waits_between_deliveries_as_its_preset_here_says(queues: ArtemisQueues) -> None:
    policy = Policy(redelivery_delay=300, redelivery_delay_multiplier=2, max_redelivery_delay=1000)
    name, dead = queues.pair(
        redeliveryDelay=300, redeliveryMultiplier=2.0, maxRedeliveryDelay=1000, maxDeliveryAttempts=5
    )
    queues.publish(name, [Sent(b"1")])

    deliveries = queues.fail(name, 5)

    ours = tuple(delay_ms(policy, failure) for failure in range(1, 5))
    theirs = [later - sooner for (sooner, *_), (later, *_) in itertools.pairwise(deliveries)]
    assert ours == (300, 600, 1000, 1000)
    assert [count for _, count, _ in deliveries] == [1, 2, 3, 4, 5]
    # The machine may be busy: never early, and in this order of size.
    assert all(waited >= planned - 20 for waited, planned in zip(theirs, ours, strict=True)), json.dumps(theirs)
    (taken,) = read_all(queues, dead, 1)
    assert taken.dead_letter.original_address == name


def test_what_stomp_cannot_carry_stays_in_the_queue_and_is_said(queues: ArtemisQueues) -> None:
    name = f"odd-{time.time_ns()}"
    queues.create(name)
    queues.publish(name, [Sent(b"first", properties={"text": True})])
    queues.send_jms_kinds(name)
    reader = ADAPTER.open_reader(queues.login(name), ADAPTER.shards(queues.login(name))[0])

    taken = []
    while len(taken) < 4 and (some := reader.read(100, 20.0)):
        taken += some
    assert [one.payload for one in taken] == [b"first", b"", b"text", b"bytes"]
    reader.acknowledge(taken)
    with pytest.raises(BrokerError, match="3 messages are JMS maps, streams or objects"):
        reader.read(100, 0.5)
    reader.close()

    assert queues.depth(name) == 3
    assert sorted(type_of(queues, name)) == [2, 5, 6]


def test_behind_a_message_that_artemis_refuses_only_what_it_has_is_delivered(queues: ArtemisQueues) -> None:
    name, _ = queues.pair()
    refused = {1, 4, 5, 8}
    batch = [
        Outgoing(
            b"%d" % n,
            "text/plain",
            {},
            {"PoisonAdmin-Message-Id": str(n)},
            name,
            f"m-{n}",
            transport={"broker": "artemis", "body": "text", "properties": {"priority": "999" if n in refused else "4"}},
        )
        for n in range(10)
    ]

    failed = publish(queues, *batch)

    delivered = {n for n, one in enumerate(failed) if one is None}
    assert set(failed) <= {None, "BrokerRefused", "ConfirmLost"}
    there = {int(one.payload) for one in queues.receive(name, queues.depth(name))}
    assert {0} <= delivered <= there
    assert not there & refused
