"""Nodes and guarded consumers: alive or lost, and what each delivers or was delivering when it was lost."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from poisonadmin.store.models.claim import Node, NodeEnd
from poisonadmin.store.models.poison import Consumer
from tests import crashes
from tests.fixtures.pages import waiting

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_destination")]


def some(count: int) -> list[int]:
    return [waiting().id for _ in range(count)]


def make_consumer(name: str, *, silent: bool = False, ended: bool = False, bookmark: str | None = None) -> None:
    now = timezone.now()
    Consumer.objects.create(
        name=name,
        source="stocks",
        version="1.4.2",
        host="shop-7",
        pid=99,
        bookmark=bookmark,
        heartbeat_at=now - timedelta(minutes=5 if silent else 0),
        ended_at=now if ended else None,
        reported_by="shop",
    )


def test_a_living_node_shows_what_it_delivers_now(operator_browser: Client) -> None:
    first, second = some(2)
    delivery = crashes.take([first, second], host="worker-9", pid=321)
    text = operator_browser.get("/nodes/").content.decode()
    assert "worker-9/321" in text
    assert ">alive</span>" in text
    assert f'href="/messages/{first}/"' in text
    assert f'href="/messages/{second}/"' in text
    page = operator_browser.get(f"/nodes/{delivery.node_id}/").content.decode()
    assert "Delivers now" in page
    assert f'id="m-{first}"' in page


def test_a_lost_node_shows_what_it_was_delivering_and_what_went_back(operator_browser: Client) -> None:
    begun, waits, done = some(3)
    delivery = crashes.take([begun, waits, done])
    crashes.deliver(delivery, done)
    crashes.lose(delivery, begun)
    assert "worker-1/4711" not in operator_browser.get("/nodes/").content.decode()
    text = operator_browser.get("/nodes/?show=lost").content.decode()
    assert ">lost</span>" in text
    assert f'href="/messages/{begun}/"' in text
    assert f'href="/messages/{waits}/"' not in text
    page = operator_browser.get(f"/nodes/{delivery.node_id}/").content.decode()
    assert "Was delivering when it was lost" in page
    assert f'id="m-{waits}"' in page
    assert f'id="m-{done}"' not in page
    assert "It died, or sent no heartbeat for too long" in page


def test_a_node_that_survived_crashes_names_them(operator_browser: Client) -> None:
    killer = some(1)[0]
    delivery = crashes.take([killer])
    crashes.crash(delivery, killer)
    crashes.end(delivery)
    assert "saw 1 crash" in operator_browser.get("/nodes/?show=all").content.decode()
    page = operator_browser.get(f"/nodes/{delivery.node_id}/").content.decode()
    assert "Crashes it saw, and survived" in page
    assert "SIGSEGV" in page
    assert "ended normally" in page


@pytest.mark.parametrize(
    ("end", "words"),
    [(NodeEnd.CLEAN, "ended normally"), (NodeEnd.LOST, "lost"), (NodeEnd.FENCED, "came too late"), (None, "silent")],
)
def test_how_a_node_ended_is_said_in_words(operator_browser: Client, end: NodeEnd | None, words: str) -> None:
    delivery = crashes.take(some(1))
    past = timezone.now() - timedelta(minutes=1)
    Node.objects.update(end=end, ended_at=past if end else None, heartbeat_at=past)
    assert f">{words}</span>" in operator_browser.get("/nodes/?show=all").content.decode()
    assert words in operator_browser.get(f"/nodes/{delivery.node_id}/").content.decode()
    is_lost = end in (NodeEnd.LOST, None)
    assert ("worker-1/4711" in operator_browser.get("/nodes/?show=lost").content.decode()) is is_lost


def test_consumers_are_shown_with_what_they_were_handling(operator_browser: Client) -> None:
    make_consumer("printer-1", bookmark="12|34|")
    make_consumer("printer-2", silent=True, bookmark="56|78|")
    make_consumer("printer-3", ended=True, bookmark="90|12|")
    alive = operator_browser.get("/nodes/").content.decode()
    assert "printer-1" in alive
    assert "1.4.2" in alive
    assert "12|34|" in alive
    assert "printer-2" not in alive
    lost = operator_browser.get("/nodes/?show=lost").content.decode()
    assert "printer-2" in lost
    assert "56|78|" in lost
    every = operator_browser.get("/nodes/?show=all").content.decode()
    assert "printer-3" in every
    assert "90|12|" not in every


def test_nothing_running_says_what_was_seen_last(operator_browser: Client) -> None:
    assert "the first delivery makes the first one" in operator_browser.get("/nodes/").content.decode()
    delivery = crashes.take(some(1))
    crashes.end(delivery)
    assert f'id="latest-node" href="/nodes/{delivery.node_id}/"' in operator_browser.get("/nodes/").content.decode()


def test_the_living_part_is_refreshed_alone(operator_browser: Client) -> None:
    text = operator_browser.get("/nodes/?show=all", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in text
    assert "Consumers with the guard" in text


def test_a_limited_account_sees_no_node(browser_of: Callable[[str], Client]) -> None:
    delivery = crashes.take(some(1))
    client = browser_of("outsider")
    assert "does not see them" in client.get("/nodes/").content.decode()
    assert client.get(f"/nodes/{delivery.node_id}/").status_code == 404


@pytest.mark.parametrize("query", ["show=dead", "alive=true"])
def test_an_unknown_choice_is_refused(operator_browser: Client, query: str) -> None:
    assert operator_browser.get(f"/nodes/?{query}").status_code == 400
