"""Broker checks with real brokers, asked for as a page or the API does, answered as the io worker does."""

import pytest

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.brokers.domain.brokers import InvalidSource
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.sources.commands.broker_checks import request_broker_check
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose
from poisonadmin.sources.queries import BrokerCheckRow, get_broker_check
from tests.brokers.exchange import read_all
from tests.brokers.messages import Sent
from tests.brokers.queues import Queues, until_back
from tests.sources.checks import make_checks
from workers.brokers.sources import check_broker

pytestmark = pytest.mark.django_db(transaction=True)


def checked(queues: Queues, queue: str, purpose: BrokerCheckPurpose, *, password: str | None = None) -> BrokerCheckRow:
    """Return a broker check with its result."""
    login = queues.login(queue)
    config = {"url": login.url, "topics" if queues.kind == "kafka" else "queues": [queue]}
    secrets = {"username": login.username, "password": password or login.password}
    check_id = request_broker_check(queues.kind, config, purpose, principal=SYSTEM, secrets=secrets)
    assert make_checks(check_broker) == 1
    return get_broker_check(check_id, principal=SYSTEM)


def test_a_preview_shows_what_waits_and_leaves_it_there(queues: Queues) -> None:
    original, dead = queues.dead_letter(
        [Sent(b'{"n": 1}', message_id="m-1", headers={"tenant": "eu"}), Sent(b"\x00\xff\xfe", message_id="m-2")]
    )
    found = checked(queues, dead, BrokerCheckPurpose.PREVIEW)
    assert found.result is not None
    assert (found.state, found.error, found.result.depth) == (RunState.SUCCEEDED, None, 2)
    # A consumer of several partitions dead-letters in no order, and Kafka's messages have no id of their producer's.
    second, first = sorted(found.result.messages, key=lambda one: one.payload_bytes)
    assert (first.payload_text, first.headers["tenant"], first.original_address) == ('{"n": 1}', "eu", original)
    assert second.payload_bytes == 3
    assert until_back(queues, dead, 2) == 2
    counted = checked(queues, dead, BrokerCheckPurpose.CONNECTION).result
    assert counted is not None
    assert counted.depth == 2


def test_what_waits_is_grouped_and_left_where_the_broker_can_be_observed(queues: Queues) -> None:
    bodies = [f"body-{number}" for number in range(30)]
    original, dead = queues.dead_letter([Sent(body.encode()) for body in bodies])
    if not BROKERS[queues.kind].can_be_observed:
        with pytest.raises(InvalidSource, match="cannot be observed"):
            checked(queues, dead, BrokerCheckPurpose.GROUPS)
        return
    found = checked(queues, dead, BrokerCheckPurpose.GROUPS).result
    assert found is not None
    (group,) = found.groups
    assert (found.depth, found.groups_of, group.count, group.addresses) == (30, 30, 30, [original])
    assert group.sample.payload_text in bodies
    assert until_back(queues, dead, 30) == 30
    assert not any(one.is_redelivered for one in read_all(queues, dead, 30))


def test_a_queue_that_is_not_there_is_reported(queues: Queues) -> None:
    found = checked(queues, "no-such-queue", BrokerCheckPurpose.CONNECTION)
    assert found.state == RunState.FAILED
    assert "no-such-queue" in (found.error or "")


def test_a_wrong_password_is_reported_and_not_repeated(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    # Kafka's client tries again until its time is over.
    monkeypatch.setattr("workers.brokers.kafka.connection.ANSWER_SECONDS", 2.0)
    found = checked(queues, "orders.dlq", BrokerCheckPurpose.CONNECTION, password="canary")
    assert found.state == RunState.FAILED
    assert "canary" not in (found.error or "")
