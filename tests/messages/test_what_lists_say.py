"""Lists, badges and reports say what is so."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from poisonadmin.core.commands.exports.formats import csv_chunks
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.search.queries.report import COLUMNS, report_rows
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Message
from poisonadmin.system.queries.overview import system_metrics
from tests.crashes import blacklist
from tests.fixtures import decisions
from tests.fixtures.api import take
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter, html_of, waiting

pytestmark = pytest.mark.django_db

STACK = "Wrapper: failed\n\tat com.example.Orders.apply(Orders.java:1)\nCaused by: com.example.DiskFull: no space"


def report() -> "csv.DictReader[str]":
    chunks = csv_chunks(COLUMNS, report_rows(parse_filter({}), principal=SYSTEM))
    return csv.DictReader(io.StringIO(b"".join(chunks).decode()))


def found(**params: str) -> list[int]:
    rows = list_messages(parse_filter({name: [text] for name, text in params.items()}), principal=SYSTEM).results
    return [row.id for row in rows]


def moved(to: str = "orders.dlq", at: str = "orders.placed", **fields: Any) -> Message:
    """Hand in a dead letter that failed at another address than where it is."""
    return dead_letter(to, dead_letter={"original_address": at, "delivery_count": 3, **fields})


def test_the_metrics_say_how_long_the_oldest_undecided_has_waited() -> None:
    early, late = dead_letter(), dead_letter()
    ages = {early.id: 60, late.id: 3600}
    for message_id, seconds in ages.items():
        Message.objects.filter(id=message_id).update(state_at=datetime.now(UTC) - timedelta(seconds=seconds))
    assert system_metrics().oldest_undecided_seconds == pytest.approx(3600, abs=60)


def test_the_badge_opens_what_it_counts(operator_browser: Client) -> None:
    dead_letter()
    waiting()
    text = html_of(operator_browser.get("/triage/"))
    assert '<a class="count" id="undecided-count" href="/triage/?state=NDLV"' in text
    assert ">1<span" in text.partition('id="undecided-count"')[2]


@pytest.mark.parametrize("word", ["Object reference", "object REFERENCE not set", "DiskFull", "Boom"])
def test_a_search_for_an_error_finds_what_the_page_shows(word: str) -> None:
    letter = {"exception_message": "Object reference not set to an instance", "stack": STACK}
    message = dead_letter(dead_letter=letter)
    assert found(error=word) == [message.id]
    assert found(q=f'error:"{word}"') == [message.id]
    assert found(q=f'"{word}"') == [message.id]
    assert found(error="Nothing of it") == []


def test_dead_letters_are_found_by_where_they_failed(operator_browser: Client) -> None:
    message, other = moved(), moved(at="bills.placed")
    assert found(original_address="orders.placed") == [message.id]
    assert found(q="original_address:orders.*") == [message.id]
    assert found(q="!original_address:orders.*") == [other.id]
    assert found(original_address="orders.#", state="NDLV") == [message.id]
    assert "from orders.placed" in html_of(operator_browser.get("/triage/"))
    page = html_of(operator_browser.get("/addresses/one/?name=orders.placed"))
    assert "Failed here, now elsewhere" in page
    assert '<a href="/triage/?original_address=orders.placed">1 message</a>' in page


def test_spans_say_whether_they_mean_received_or_failed() -> None:
    failed_at = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    message = dead_letter(dead_letter={"failed_at": failed_at})
    assert found(q="received:1h") == found(q="since:1h") == found(q="failed:4d") == [message.id]
    assert found(q="failed:1h") == []


def test_an_approved_dead_letter_keeps_its_past_in_the_report() -> None:
    message = moved()
    before = next(
        csv.DictReader(
            io.StringIO(b"".join(csv_chunks(COLUMNS, report_rows(parse_filter({}), principal=SYSTEM))).decode())
        )
    )
    assert before["original_address"] == "orders.placed"
    make_orders_destination()
    decided = decisions.approve([message.id], principal=SYSTEM, reason="r")
    assert list(decided.changed) == [message.id]
    after = next(
        csv.DictReader(
            io.StringIO(b"".join(csv_chunks(COLUMNS, report_rows(parse_filter({}), principal=SYSTEM))).decode())
        )
    )
    assert after["original_address"] == "orders.placed"
    assert after["failure_count"] == "1"  # what it had failed before import is one failure on record


def reported(message_id: int) -> str:
    rows = csv.DictReader(
        io.StringIO(b"".join(csv_chunks(COLUMNS, report_rows(parse_filter({}), principal=SYSTEM))).decode())
    )
    return next(row["failure_count"] for row in rows if row["id"] == str(message_id))


def fail(message_id: int, times: int, outcome: str = "failed") -> None:
    """Let attempts end so, as settling does it."""
    for _ in range(times):
        message = Message.objects.get(id=message_id)
        number = message.attempt_number + 1
        counted = 0 if outcome == "crashed" else 1
        Message.objects.filter(id=message_id).update(
            state="NDLV",
            reason="attempts_exhausted",
            attempt_number=number,
            failure_count=message.failure_count + counted,
        )
        Attempt.objects.create(
            message_id=message_id,
            attempt_number=number,
            finished_at=datetime.now(UTC),
            outcome=outcome,
            error_class="Boom",
        )


def test_the_report_counts_the_failures_since_the_last_success_or_approval_before_the_latest() -> None:
    make_orders_destination()
    message = waiting()
    assert reported(message.id) == "0"
    for times in (3, 2):
        fail(message.id, times)
        assert reported(message.id) == str(times)
        decisions.approve([message.id], principal=SYSTEM, reason="r")
        assert reported(message.id) == str(times)
    fail(message.id, 1, "crashed")
    assert reported(message.id) == "0"


def test_a_blacklisted_message_is_no_candidate_any_more(operator_browser: Client) -> None:
    message = waiting()
    blacklist(message.id)
    Message.objects.update(candidate=True)
    tag = ">candidate</span>"
    assert tag not in html_of(operator_browser.get("/triage/"))
    assert tag not in html_of(operator_browser.get(f"/messages/{message.id}/"))
    other = waiting()
    Message.objects.filter(id=other.id).update(candidate=True)
    assert tag in html_of(operator_browser.get("/triage/"))


def test_tries_count_what_was_begun(operator_browser: Client) -> None:
    message = waiting()
    Message.objects.update(attempt_number=3)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO history (message_id, from_state, to_state, event, attempt_number, actor)"
            " SELECT %s, 'DLNG', 'TBDL', 'released', n, 'system' FROM generate_series(1, 2) AS n",
            [message.id],
        )
    assert list_messages(parse_filter({}), principal=SYSTEM).results[0].attempts_begun == 1
    assert "1 made here" in html_of(operator_browser.get(f"/messages/{message.id}/"))
    assert 'data-label="Tries">1</td>' in html_of(operator_browser.get("/triage/"))


def test_what_waits_at_an_address_without_a_destination_says_so_and_is_not_due(operator_browser: Client) -> None:
    message_id = take("parking.eu")
    listed, page = (html_of(operator_browser.get(path)) for path in ("/triage/", f"/messages/{message_id}/"))
    assert "waits for a destination" in listed
    assert "data-due" not in listed
    assert "once its address has a destination" in page


def test_what_is_due_is_marked_for_the_browser(operator_browser: Client) -> None:
    make_orders_destination()
    waiting()
    assert '<span class="why" data-due>due <time' in html_of(operator_browser.get("/triage/"))


@pytest.mark.parametrize("status", ["PAUSED", "STOPPED"])
def test_nothing_is_due_on_an_address_that_delivers_nothing(status: str, operator_browser: Client) -> None:
    make_orders_destination()
    waiting()
    assert "data-due" in html_of(operator_browser.get("/triage/"))
    Address.objects.update(status=status)
    page = html_of(operator_browser.get("/triage/"))
    assert "data-due" not in page
    assert f"held: its address is {status.lower()}" in page
