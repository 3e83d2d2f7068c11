"""The poison list under concurrency: counts, change numbers, the decision's own listing."""

import threading
from typing import Any

import pytest
from django.db import connection, transaction

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.releases import release_bookmark
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.poison_list.commands import Report, list_messages, report
from poisonadmin.poison_list.queries.entries import list_consumers
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Envelope
from poisonadmin.store.models.poison import PoisonEntry
from tests.fixtures import decisions
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, enqueue, make_destination, states

SOURCE = "orders.eu"


def reported(bookmark: str, **more: Any) -> PoisonEntry:
    """Report, and return the entry."""
    return PoisonEntry.objects.get(id=report(Report(SOURCE, bookmark, "why", **more), principal=SYSTEM))


def listed_by_decision(ids: list[int], *, fatal: bool = False) -> None:
    """List messages as settling does."""
    with transaction.atomic(), connection.cursor() as cursor:
        list_messages(cursor, ids, why=dict.fromkeys(ids, "gave up"), fatal=fatal, actor="system")


def in_threads(count: int, run: Any) -> None:
    """Run in so many threads at once, each with a connection of its own."""

    def run_and_close(number: int) -> None:
        try:
            run(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=run_and_close, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.django_db(transaction=True)
def test_reports_at_once_are_all_counted_and_list_exactly_once() -> None:
    in_threads(6, lambda _: reported("1", fatal=True, crash_limit=4))
    entry = PoisonEntry.objects.get()
    assert (entry.crashes, entry.is_listed) == (6, True)


@pytest.mark.django_db(transaction=True)
def test_change_numbers_become_visible_in_their_order() -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        with transaction.atomic():
            reported("slow")
            waiting.set()
            go_on.wait(30)

    seen_early: list[int] = []

    def look() -> None:
        waiting.wait(30)
        fast = threading.Thread(target=in_threads, args=(1, lambda _: reported("fast")))
        fast.start()
        # The fast one may not be seen before the slow one, or whoever had read up to it would miss the slow one.
        fast.join(0.2)
        seen_early.extend(PoisonEntry.objects.values_list("change", flat=True))
        go_on.set()
        fast.join(30)
        connection.close()

    looking = threading.Thread(target=look)
    looking.start()
    in_threads(1, slow)
    looking.join(30)
    assert seen_early == []
    slow_entry, fast_entry = (PoisonEntry.objects.get(bookmark=bookmark) for bookmark in ("slow", "fast"))
    assert 0 < slow_entry.change < fast_entry.change


@pytest.mark.django_db(transaction=True)
def test_two_reports_that_bring_the_same_message_store_it_once() -> None:
    from poisonadmin.intake.domain.envelope import parse_envelope

    told = {"address": SOURCE, "message_id": "1", "bookmark": "1", "payload": "x", "dead_letter": {"reason": "why"}}
    in_threads(4, lambda _: reported("1", envelope=parse_envelope(told)))
    assert Envelope.objects.count() == 1
    assert PoisonEntry.objects.get().message_id == Envelope.objects.get().id
    assert counters() == counted()


def test_a_change_number_moves_only_when_something_is_listed_or_released(db: None) -> None:
    first = reported("1", fatal=True)
    second = reported("1", fatal=True)
    third = reported("1", fatal=True)
    assert first.change == 0 < second.change == third.change
    release_bookmark(third.id, principal=SYSTEM, reason="repaired")
    assert PoisonEntry.objects.get().change > third.change


def test_a_decision_lists_under_the_bookmark_or_else_the_producer_s_id(destination: str) -> None:
    (with_bookmark,) = enqueue(1, bookmark="place 7")
    (without,) = enqueue(1, message_id="order 8")
    listed_by_decision([with_bookmark, without])
    found = PoisonEntry.objects.order_by("bookmark").values_list("source", "bookmark", "is_listed", "message_id", "why")
    assert list(found) == [
        ("orders.eu", "order 8", True, without, "gave up"),
        ("orders.eu", "place 7", True, with_bookmark, "gave up"),
    ]


def test_a_decision_may_list_two_messages_of_one_bookmark(destination: str) -> None:
    listed_by_decision(enqueue(2, bookmark="7"), fatal=True)
    entry = PoisonEntry.objects.get()
    assert (entry.is_listed, entry.crashes, entry.failures) == (True, 2, 0)


def test_a_decision_on_no_message_lists_nothing(db: None) -> None:
    listed_by_decision([])
    assert not PoisonEntry.objects.exists()


def test_every_message_that_waits_under_a_bookmark_goes_along(destination: str) -> None:
    ids = enqueue(3, bookmark="7")
    others = enqueue(1, bookmark="8")
    reported("7")
    assert (states(ids), states(others)) == (["NDLV"] * 3, ["TBDL"])
    assert History.objects.filter(event="listed", note="why").count() == 3
    assert counters() == counted()


@pytest.mark.conformance("R7")
def test_a_report_finds_a_message_at_the_address_where_it_is_now(destination: str) -> None:
    (moved,) = enqueue(message_id="8")
    (own_bookmark,) = enqueue(message_id="8", address="orders.us", bookmark="9")
    decisions.quarantine([moved], principal=SYSTEM, reason="x")
    decisions.redirect([moved], principal=SYSTEM, reason="x", params={"address": "orders.us"})
    reported("8")
    assert states([moved, own_bookmark]) == ["TBDL", "TBDL"]
    report(Report("orders.us", "8", "why"), principal=SYSTEM)
    assert states([moved, own_bookmark]) == ["NDLV", "TBDL"]


@pytest.mark.parametrize("count", [1, 3])
def test_approving_releases_the_bookmarks_of_all_approved_messages(destination: str, count: int) -> None:
    ids = [enqueue(1, bookmark=str(number))[0] for number in range(count)]
    for number in range(count):
        reported(str(number))
    reported("another")
    decisions.approve(ids, principal=SYSTEM, reason="repaired")
    assert list(PoisonEntry.objects.filter(is_listed=True).values_list("bookmark", flat=True)) == ["another"]


def test_approving_a_message_that_was_moved_releases_the_bookmark_it_was_listed_under(db: None) -> None:
    make_destination()
    (message_id,) = enqueue(1, bookmark="7")
    reported("7")
    decisions.return_to_original([message_id], principal=SYSTEM, reason="x")
    assert PoisonEntry.objects.get().is_listed
    decisions.approve([message_id], principal=SYSTEM, reason="x")
    assert not PoisonEntry.objects.get().is_listed


@pytest.mark.parametrize(("outcome", "counts"), [("failed", (1, 0)), ("crashed", (0, 1))])
def test_amps_13_one_failure_or_one_crash_under_the_preset_lists_and_approving_releases(
    outcome: str, counts: tuple[int, int], destination: str
) -> None:
    save_policy("orders.#", preset="amps", settings={}, destination=destination, principal=SYSTEM)
    (message_id,) = enqueue(1, bookmark="place 7")
    taken = claim()
    died = {"error_class": "HandlerSegfault", "error_message": "SIGSEGV", "fingerprint": "a" * 16, "title": "died"}
    answer([message_id], outcome, **(died if outcome == "crashed" else {}))
    end_nodes(taken)
    settle(taken.id)
    entry = PoisonEntry.objects.get()
    assert states([message_id]) == ["NDLV"]
    assert (entry.source, entry.bookmark, entry.is_listed, entry.message_id) == (SOURCE, "place 7", True, message_id)
    assert (entry.failures, entry.crashes) == counts
    assert counters() == counted()
    decisions.approve([message_id], principal=SYSTEM, reason="repaired")
    assert states([message_id]) == ["TBDL"]
    assert not PoisonEntry.objects.get().is_listed


def test_a_consumer_is_lost_when_it_falls_silent(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO consumer (name, source, host, pid, reported_by, heartbeat_at, ended_at) VALUES"
            " ('a', 'orders', 'h', 1, 't', now(), NULL),"
            " ('b', 'orders', 'h', 2, 't', now() - interval '1 minute', NULL),"
            " ('c', 'bills', 'h', 3, 't', now() - interval '1 minute', now())"
        )
    found = list_consumers(principal=SYSTEM).results
    assert [(row.name, row.is_alive, row.end) for row in found] == [
        ("a", True, None),
        ("b", False, "lost"),
        ("c", False, "clean"),
    ]
    assert [row.name for row in list_consumers(principal=SYSTEM, alive=True).results] == ["a"]
    assert [row.name for row in list_consumers(principal=SYSTEM, source="bills", alive=False).results] == ["c"]
