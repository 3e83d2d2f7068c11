"""Broker checks with real brokers, asked for as a page or the API does, answered as the io worker does."""

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.sources.commands.broker_checks import answer_due, request_broker_check
from poisonadmin.sources.queries.broker_checks import BrokerCheckRow, BrokerCheckState, get_broker_check
from poisonadmin.store.models.intake import BrokerCheckPurpose
from tests.brokers.messages import Sent
from tests.brokers.queues import Queues, until_back
from workers.brokers.checking import check_broker

pytestmark = pytest.mark.django_db(transaction=True)


def checked(queues: Queues, queue: str, purpose: BrokerCheckPurpose, *, password: str | None = None) -> BrokerCheckRow:
    """Return a broker check with its result."""
    login = queues.login(queue)
    config = {"url": login.url, "topics" if queues.kind == "kafka" else "queues": [queue]}
    secrets = {"username": login.username, "password": password or login.password}
    check_id = request_broker_check(queues.kind, config, purpose, principal=SYSTEM, secrets=secrets)
    assert answer_due(check_broker) == 1
    return get_broker_check(check_id, principal=SYSTEM)


def test_a_preview_shows_what_waits_and_leaves_it_there(queues: Queues) -> None:
    original, dead = queues.dead_letter(
        [Sent(b'{"n": 1}', message_id="m-1", headers={"tenant": "eu"}), Sent(b"\x00\xff\xfe", message_id="m-2")]
    )
    found = checked(queues, dead, BrokerCheckPurpose.PREVIEW)
    assert (found.state, found.error, found.depth) == (BrokerCheckState.ANSWERED, None, 2)
    # A consumer of several partitions dead-letters in no order, and Kafka's messages have no id of their producer's.
    second, first = sorted(found.messages, key=lambda one: one.payload_bytes)
    assert (first.payload_text, first.headers["tenant"], first.original_address) == ('{"n": 1}', "eu", original)
    assert second.payload_bytes == 3
    assert until_back(queues, dead, 2) == 2
    assert checked(queues, dead, BrokerCheckPurpose.CONNECTION).depth == 2


def test_a_queue_that_is_not_there_is_reported(queues: Queues) -> None:
    found = checked(queues, "no-such-queue", BrokerCheckPurpose.CONNECTION)
    assert found.state == BrokerCheckState.FAILED
    assert "no-such-queue" in (found.error or "")


def test_a_wrong_password_is_reported_and_not_repeated(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    # Kafka's client tries again until its time is over.
    monkeypatch.setattr("workers.brokers.kafka.connection.ANSWER_SECONDS", 2.0)
    found = checked(queues, "orders.dlq", BrokerCheckPurpose.CONNECTION, password="canary")
    assert found.state == BrokerCheckState.FAILED
    assert "canary" not in (found.error or "")
