"""A look at the real broker, asked for as a page or the API does, answered as the io worker does."""

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.sources.commands.broker_checks import answer_due, request_broker_check
from poisonadmin.sources.queries.broker_checks import BrokerCheckRow, BrokerCheckState, get_broker_check
from poisonadmin.store.models.broker_look import LookPurpose
from tests.brokers.chosen import chosen_brokers
from tests.brokers.received import Sent
from tests.brokers.rigs import RIGS, Rig
from workers.brokers.checking import check_broker

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[name for name, (kind, _) in RIGS.items() if kind in chosen_brokers()])
def rig(request: pytest.FixtureRequest) -> Rig:
    """Return the broker with consumers."""
    kind, made = RIGS[request.param]
    return made(request.getfixturevalue(kind))


def seen(rig: Rig, queue: str, purpose: LookPurpose, *, password: str | None = None) -> BrokerCheckRow:
    """Return what a look comes to."""
    login = rig.login(queue)
    config = {"url": login.url, "topics" if rig.kind == "kafka" else "queues": [queue]}
    secrets = {"username": login.username, "password": password or login.password} if login.username else {}
    look_id = request_broker_check(rig.kind, config, purpose, principal=SYSTEM, secrets=secrets)
    assert answer_due(check_broker) == 1
    return get_broker_check(look_id, principal=SYSTEM)


def test_a_preview_shows_what_waits_and_leaves_it_there(rig: Rig) -> None:
    original, dead = rig.dead_letter(
        [Sent(b'{"n": 1}', message_id="m-1", headers={"tenant": "eu"}), Sent(b"\x00\xff\xfe", message_id="m-2")]
    )
    found = seen(rig, dead, LookPurpose.PREVIEW)
    assert (found.state, found.error, found.depth) == (BrokerCheckState.ANSWERED, None, 2)
    first, second = sorted(found.messages, key=lambda one: one.message_id or "")
    assert (first.payload_text, first.headers["tenant"], first.original_address) == ('{"n": 1}', "eu", original)
    assert second.payload_bytes == 3
    assert seen(rig, dead, LookPurpose.CONNECTION).depth == 2
    assert rig.depth(dead) == 2


def test_a_queue_that_is_not_there_is_said(rig: Rig) -> None:
    found = seen(rig, "no-such-queue", LookPurpose.CONNECTION)
    assert found.state == BrokerCheckState.FAILED
    assert "no-such-queue" in (found.error or "")


def test_a_wrong_password_is_said_and_not_repeated(rig: Rig) -> None:
    if not rig.login("x").username:
        return  # the test's broker lets everybody in
    found = seen(rig, "orders.dlq", LookPurpose.CONNECTION, password="canary")
    assert found.state == BrokerCheckState.FAILED
    assert "canary" not in (found.error or "")
