"""The merge: what is staged becomes messages, once, also when others merge at the same time."""

import threading
from collections.abc import Callable

import psycopg
import pytest
from django.db import connection, connections

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.intake.commands.merge import Merged, merge_staged
from tests.intake.store import assert_whole, line, messages, rows

TOLD = {
    "reason": "MaxDeliveryAttempts",
    "exception_class": "shop.OrderRejected",
    "exception_message": "order 17 has no customer",
    "stack": 'Traceback (most recent call last):\n  File "/srv/shop/orders.py", line 9, in place\nOrderRejected: no',
    "original_address": "orders.eu",
    "failed_at": "2026-01-02T03:04:05Z",
    "delivery_count": 10,
}


@pytest.mark.django_db
def test_a_dead_letter_becomes_ndlv_with_its_failure_its_group_and_its_hop() -> None:
    accept_stream(
        [line("orders.dlq", message_id="7", dead_letter=TOLD), line("orders.dlq", dead_letter=TOLD)], principal=SYSTEM
    )
    [(state, reason, failures, failed_at, due_at, original, group)] = rows(
        """SELECT state, reason, failure_count, failed_at::text, due_at, address.name, group_id
           FROM message JOIN envelope USING (id) JOIN address ON address.id = original_address_id
           WHERE message_id = '7'"""
    )
    assert (state, reason, failures, failed_at) == ("NDLV", "imported", 10, "2026-01-02 03:04:05+00")
    assert (due_at, original) == (None, "orders.eu")
    assert rows("SELECT id, failures, error_class FROM failure_group") == [(group, 2, "shop.OrderRejected")]
    assert (
        rows(
            """SELECT attempt_number, outcome, error_class, error_message, stack IS NOT NULL, fingerprint IS NOT NULL
               FROM attempt"""
        )
        == [(0, "imported", "shop.OrderRejected", "order 17 has no customer", True, True)] * 2
    )
    assert (
        rows("SELECT from_address, to_address, reason FROM hop")
        == [("orders.eu", "orders.dlq", "MaxDeliveryAttempts")] * 2
    )
    assert (
        rows("SELECT event, to_state, reason, note FROM history")
        == [("imported", "NDLV", "imported", "MaxDeliveryAttempts")] * 2
    )
    assert_whole()


@pytest.mark.django_db
def test_a_dead_letter_that_tells_nothing_is_taken_in_too() -> None:
    assert accept_stream([line(dead_letter={}), line(payload="y")], principal=SYSTEM).accepted == 2
    assert rows("SELECT state, failure_count FROM message ORDER BY state") == [("NDLV", 0), ("TBDL", 0)]
    assert_whole()


@pytest.mark.django_db
def test_a_failure_from_the_future_counts_as_of_now() -> None:
    accept_stream([line(dead_letter={"failed_at": "2999-01-01T00:00:00Z"})], principal=SYSTEM)
    assert rows("SELECT failed_at <= now() FROM message") == [(True,)]


@pytest.mark.django_db
def test_merging_what_is_merged_already_changes_nothing() -> None:
    batch = accept_stream([line()], principal=SYSTEM).batch
    assert merge_staged(batch, actor="test") == Merged()
    assert len(messages()) == 1


@pytest.mark.django_db
def test_a_new_message_wakes_its_lane() -> None:
    accept_stream([line("orders.eu"), line("orders.us"), line("dlq", dead_letter={})], principal=SYSTEM)
    assert rows("SELECT name, next_due IS NULL FROM address JOIN lane ON address_id = address.id ORDER BY 1") == [
        ("dlq", True),
        ("orders.eu", False),
        ("orders.us", False),
    ]


def in_threads(*works: Callable[[], object]) -> list[object]:
    """Do all works at once, each on a connection of its own; return what they returned or raised."""
    done: list[object] = [None] * len(works)

    def do(index: int, work: Callable[[], object]) -> None:
        try:
            done[index] = work()
        except Exception as error:
            done[index] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=do, args=one) for one in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


@pytest.mark.django_db(transaction=True)
def test_the_same_messages_from_many_sides_at_once_are_there_once() -> None:
    # In opposite orders, so that each waits for an id that the other has: the database ends one, which runs once more.
    forth = [line(f"a.{n % 5}", message_id=str(n)) for n in range(400)]
    works = [lambda lines=lines: accept_stream(lines, principal=SYSTEM) for lines in (forth, forth[::-1]) * 2]
    results = in_threads(*works)
    assert [(r.accepted + r.duplicates, r.rejected_count) for r in results] == [(400, 0)] * 4  # type: ignore[attr-defined]
    assert sum(r.accepted for r in results) == 400  # type: ignore[attr-defined]
    assert len(messages()) == 400
    assert_whole()


@pytest.mark.django_db(transaction=True)
def test_one_batch_is_merged_by_one_of_two() -> None:
    stage_without_merging(50)
    results = in_threads(*[lambda: merge_staged("batch:x", actor="test")] * 2)
    assert sorted(r.accepted for r in results) == [0, 50]  # type: ignore[attr-defined]
    assert_whole()


def stage_without_merging(count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('message_id_seq') FROM generate_series(1, %s)", [count])
        for (row_id,) in cursor.fetchall():
            cursor.execute("INSERT INTO body VALUES (%s, '{}', 'x')", [row_id])
            cursor.execute(
                """INSERT INTO staged_message (id, batch, line, address, message_id, content_type, payload_bytes)
                   VALUES (%s, 'batch:x', %s, 'a', %s, 'text/plain', 1)""",
                [row_id, row_id, str(row_id)],
            )


@pytest.mark.django_db(transaction=True)
def test_nothing_staged_is_visible_as_a_message_before_its_merge(test_database_url: str) -> None:
    stage_without_merging(3)
    with psycopg.connect(test_database_url) as other:
        assert other.execute("SELECT count(*) FROM message").fetchone() == (0,)
        merge_staged("batch:x", actor="test")
        assert other.execute("SELECT count(*) FROM message").fetchone() == (3,)
