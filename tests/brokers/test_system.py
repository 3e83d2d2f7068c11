"""The whole way of a broker's messages through everything that `make up` starts, and what is killed on the way.

A real consumer has failed at a thousand messages; PoisonAdmin drains, groups and returns them through a proxy.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.brokers.proxied_queue import COUNT, SECONDS, ProxiedQueue, proxied_queue
from tests.brokers.queues import Queues
from tests.brokers.server import Server
from tests.faults.invariants import all_broken
from tests.whole_system.installation import Installation, until


@pytest.fixture
def proxied(installation: Installation, queues: Queues, broker_to_kill: Server) -> Iterator[ProxiedQueue]:
    """Yield a queue with dead letters between a broker and PoisonAdmin; both may be killed."""
    with proxied_queue(installation, queues) as made:
        yield made


def kill_worker(proxied: ProxiedQueue) -> None:
    """Kill what drains, its tasks as well."""
    worker = proxied.installation.process_of("spark-batch")
    for process in [worker, *worker.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    proxied.proxy.cut()


def kill_broker(proxied: ProxiedQueue) -> None:
    """Kill the broker, and start it again."""
    proxied.queues.server.kill()
    proxied.proxy.cut()
    proxied.queues.server.start()


def test_a_thousand_dead_letters_come_back_as_they_were_sent(proxied: ProxiedQueue) -> None:
    proxied.drain()
    proxied.return_approved()
    proxied.until_all("NDLV")
    (group,) = proxied.groups()
    if proxied.queues.kind == "kafka":
        # By the cause, not by what the listener's container wraps it in.
        assert group["title"] == "NoSuchCustomer in com.example.orders.Billing.bill"

    proxied.approve_all()
    proxied.until_all("DLVD")
    assert_all_received(proxied, most_twice=0)
    proxied.until_drained()


@pytest.mark.parametrize("kill", [kill_worker, kill_broker], ids=["worker", "broker"])
def test_killed_between_storing_and_acknowledging(proxied: ProxiedQueue, kill: Callable[[ProxiedQueue], None]) -> None:
    if kill is kill_broker:
        time.sleep(proxied.settles_seconds)
    before = proxied.staged_bodies()
    proxied.proxy.hold_back(proxied.acknowledgement)
    proxied.drain()
    assert proxied.proxy.is_holding.wait(SECONDS), proxied.errors()
    assert proxied.staged_bodies() > before

    kill(proxied)
    proxied.proxy.heal()

    # Each message is stored once.
    until(lambda: sum(proxied.states().values()) >= COUNT, SECONDS, lambda: (proxied.states(), proxied.errors()))
    proxied.until_drained()
    proxied.until_all("NDLV")
    assert proxied.distinct_payloads() == COUNT


def test_the_broker_killed_while_messages_return(proxied: ProxiedQueue) -> None:
    proxied.drain()
    proxied.return_approved()
    proxied.until_all("NDLV")
    # A broker that forgets acknowledgements when it is killed gives dead letters again; here returns are meant.
    proxied.until_drained()
    time.sleep(proxied.settles_seconds)

    proxied.hold_confirms()
    proxied.approve_all()
    assert proxied.proxy.is_holding.wait(SECONDS), proxied.errors()
    kill_broker(proxied)
    proxied.proxy.heal()

    proxied.until_all("DLVD")
    query = """SELECT count(*) FROM attempt JOIN envelope ON envelope.id = attempt.message_id
               JOIN address ON address.id = intake_address_id
               WHERE error_class = 'ConfirmLost' AND address.name = %s"""
    failed = proxied.installation.rows(query, [proxied.queue])[0][0]
    assert failed >= 1
    assert_all_received(proxied, most_twice=failed)
    rows = proxied.installation.rows
    until(lambda: not all_broken(rows), SECONDS, lambda: all_broken(rows))


def assert_all_received(proxied: ProxiedQueue, *, most_twice: int) -> None:
    """Fail unless a healthy consumer gets each message as it was sent; `most_twice` of them may come again."""
    received = proxied.received(COUNT + most_twice)
    by_payload = {one.payload: one for one in received}
    assert by_payload.keys() == {one.payload for one in proxied.sent}
    assert len(received) - len(by_payload) <= most_twice
    for sent in proxied.sent:
        came = by_payload[sent.payload]
        assert came.message_id == sent.message_id
        kept = {name: value for name, value in came.headers.items() if not name.startswith("PoisonAdmin-")}
        assert kept == sent.headers
        proxied.assert_kept(sent, came)
    # Each says who it is: what comes twice is recognised.
    assert len({one.headers["PoisonAdmin-Message-Id"] for one in received}) == COUNT
