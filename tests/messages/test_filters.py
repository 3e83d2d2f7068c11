"""Every filter against a plain look at every message."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal, Role, principal
from poisonadmin.core.domain.addresses import matches
from poisonadmin.core.queries.paging import Count
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch_values
from poisonadmin.core.queries.scope import pattern_regex
from poisonadmin.desk.queries.detail import get_message, history, payload
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.messages.queries.detail_rows import MessageDetail
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries import id_bounds, list_plans
from poisonadmin.search.queries.lists import count_messages, iter_messages, list_messages
from tests.fixtures import decisions

pytestmark = pytest.mark.django_db

ADDRESSES = ("orders.eu", "orders.eu.created", "orders.us", "bills", "parked.orders")
Kept = Callable[[MessageDetail], bool]


@pytest.fixture(scope="module")
def some_messages(django_db_setup: None, django_db_blocker: Any) -> Iterator[list[MessageDetail]]:
    """Yield messages that differ in everything that can be asked for, newest first; made once for all tests here."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_messages()
        transaction.set_rollback(True)


def make_messages() -> list[MessageDetail]:
    """Take in forty messages and decide on some."""
    ids = []
    for number in range(40):
        fields: dict[str, Any] = {
            "address": ADDRESSES[number % 5],
            "message_id": f"m_{number}%",
            "payload": "x",
            "headers": {"X-Kind": f'k"{number % 3}'},
        }
        if number % 4 == 0:
            fields["conversation_id"] = f"customer-{number % 8}"
        if number % 3 == 0:
            error = "TimeoutError" if number % 2 else "KeyError"
            at = datetime(2026, 1, 1 + number % 20, tzinfo=UTC).isoformat()
            fields["dead_letter"] = {"exception_class": error, "exception_message": "gone", "failed_at": at}
        ids.append(accept(parse_envelope(fields), principal=SYSTEM, received_by="test").id)
    decisions.mark_fail(ids[::6], principal=SYSTEM, reason="r")
    decisions.quarantine(ids[1::5], principal=SYSTEM, reason="r")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET candidate = id % 7 = 0, attempt_number = id % 5")
        cursor.execute("UPDATE envelope SET received_at = now() - id % 10 * interval '1 hour'")
    return [get_message(message_id, principal=SYSTEM) for message_id in reversed(ids)]


BOUND = datetime(2026, 1, 10, tzinfo=UTC)
HOURS = timedelta(hours=5, minutes=30)
CASES: list[tuple[dict[str, list[str]], Kept]] = [
    ({}, lambda _: True),
    ({"state": ["NDLV"]}, lambda m: m.state == "NDLV"),
    ({"state": ["NDLV", "FAIL"]}, lambda m: m.state in {"NDLV", "FAIL"}),
    ({"state": ["TBDL", "DLNG", "DLVD"]}, lambda m: m.state == "TBDL"),
    ({"address": ["orders.eu"]}, lambda m: m.address == "orders.eu"),
    ({"address": ["orders.#"]}, lambda m: matches("orders.#", m.address)),
    ({"address": ["*.eu", "bills"]}, lambda m: m.address in {"orders.eu", "bills"}),
    ({"address": ["nowhere.#"]}, lambda _: False),
    ({"address": ["orders.#"], "state": ["NDLV"]}, lambda m: m.address.startswith("orders") and m.state == "NDLV"),
    ({"reason": ["quarantined"]}, lambda m: m.reason == "quarantined"),
    ({"state": ["NDLV"], "q": ["state:FAIL"]}, lambda _: False),
    ({"reason": ["quarantined"], "q": ["reason:imported reason:quarantined"]}, lambda m: m.reason == "quarantined"),
    ({"reason": ["quarantined"], "state": ["FAIL"]}, lambda _: False),
    ({"reason": ["imported"], "address": ["orders.#"]}, lambda m: m.reason == "imported" and "orders." in m.address),
    ({"address": ["bills"], "state": ["TBDL", "FAIL"]}, lambda m: m.address == "bills" and m.state in {"TBDL", "FAIL"}),
    ({"error": ["timeout"], "state": ["FAIL"]}, lambda m: m.state == "FAIL" and "Timeout" in (m.group_title or "")),
    ({"reason": ["imported", "failed_by_admin"]}, lambda m: m.reason in {"imported", "failed_by_admin"}),
    ({"candidate": ["true"]}, lambda m: m.candidate),
    ({"candidate": ["false"]}, lambda m: not m.candidate),
    ({"error": ["timeout"]}, lambda m: "Timeout" in (m.group_title or "")),
    ({"error": ["timeout", "keyerror"]}, lambda m: m.group_title is not None),
    ({"error": ["nothing like it"]}, lambda _: False),
    ({"conversation_id": ["customer-4"]}, lambda m: m.conversation_id == "customer-4"),
    ({"message_id": ["m_7%", "m_8%"]}, lambda m: m.message_id in {"m_7%", "m_8%"}),
    ({"header.X-Kind": ['k"1']}, lambda m: m.headers["X-Kind"] == 'k"1'),
    ({"header.X-Kind": ["k"]}, lambda _: False),
    ({"failed_after": [BOUND.isoformat()]}, lambda m: m.failed_at is not None and m.failed_at >= BOUND),
    ({"failed_before": [BOUND.isoformat()]}, lambda m: m.failed_at is not None and m.failed_at < BOUND),
    ({"q": ["m_1"]}, lambda m: m.message_id.startswith("m_1")),
    ({"q": ["%"]}, lambda _: False),
    ({"q": ["EU"]}, lambda m: "eu" in m.address),
    ({"q": ["customer"]}, lambda m: m.conversation_id is not None),
    ({"q": ["keyerror"]}, lambda m: "KeyError" in (m.group_title or "")),
    ({"q": ["!eu"]}, lambda m: "eu" not in m.address),
    ({"q": ["!state:NDLV"]}, lambda m: m.state != "NDLV"),
    ({"q": ["!reason:imported"]}, lambda m: m.reason != "imported"),
    ({"q": ["!address:orders.#"]}, lambda m: not m.address.startswith("orders.")),
    ({"q": ["!error:KeyError"]}, lambda m: "KeyError" not in (m.group_title or "")),
    ({"q": ["attempts:>2"]}, lambda m: m.attempt_number > 2),
    ({"q": ["attempts:<=1 orders"]}, lambda m: m.attempt_number <= 1 and "orders" in m.address),
    ({"q": ["since:5h"]}, lambda m: datetime.now(UTC) - m.received_at < timedelta(hours=4, minutes=59)),
    ({"q": ["state:FAIL"], "state": ["NDLV", "FAIL"]}, lambda m: m.state == "FAIL"),
]


@pytest.mark.parametrize(("params", "kept"), CASES, ids=lambda part: str(part) if isinstance(part, dict) else "")
@pytest.mark.parametrize("few", [2000, -1], ids=["read first", "walked"])
def test_a_filter_keeps_what_it_says(
    few: int,
    params: dict[str, list[str]],
    kept: Kept,
    some_messages: list[MessageDetail],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_plans, "FEW_MATCHES", few)
    expected = [message.id for message in some_messages if kept(message)]
    found = parse_filter(params)
    assert [row.id for row in list_messages(found, principal=SYSTEM, limit=100).results] == expected
    assert count_messages(found, principal=SYSTEM).n == len(expected)
    assert [row.id for row in iter_messages(found, SYSTEM, 1000)] == expected


@pytest.mark.parametrize("most", [0, 20_000], ids=["in no order", "almost in order"])
def test_received_bounds_are_half_open(
    most: int, some_messages: list[MessageDetail], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_bounds, "MOST_ELSEWHERE", most)
    bound = some_messages[10].received_at
    for name, kept in (("received_after", lambda at: at >= bound), ("received_before", lambda at: at < bound)):
        found = list_messages(parse_filter({name: [bound.isoformat()]}), principal=SYSTEM, limit=100).results
        assert [row.id for row in found] == [message.id for message in some_messages if kept(message.received_at)]


@pytest.mark.parametrize("first", range(0, 40, 13))
@pytest.mark.parametrize("last", range(0, 40, 13))
def test_both_bounds_hold_wherever_they_meet(first: int, last: int, some_messages: list[MessageDetail]) -> None:
    after, before = some_messages[first].received_at, some_messages[last].received_at
    given = {"received_after": [after.isoformat()], "received_before": [before.isoformat()], "state": ["NDLV", "TBDL"]}
    found = list_messages(parse_filter(given), principal=SYSTEM, limit=100).results
    assert [row.id for row in found] == [
        one.id for one in some_messages if after <= one.received_at < before and one.state in given["state"]
    ]


@pytest.mark.parametrize(("params", "kept"), CASES, ids=lambda part: str(part) if isinstance(part, dict) else "")
def test_a_filter_never_reaches_beyond_the_scope(
    params: dict[str, list[str]], kept: Kept, some_messages: list[MessageDetail]
) -> None:
    limited = principal("kim", Role.VIEWER, ["*.eu.#", "parked.#"])
    expected = [message.id for message in some_messages if kept(message) and limited.sees(message.address)]
    found = list_messages(parse_filter(params), principal=limited, limit=100).results
    assert [row.id for row in found] == expected


def test_a_count_stops_at_its_cap(some_messages: list[MessageDetail]) -> None:
    every = parse_filter({})
    assert count_messages(every, principal=SYSTEM, cap=40) == Count(40, capped=False)
    assert count_messages(every, principal=SYSTEM, cap=39) == Count(39, capped=True)


def test_reading_takes_the_permission(some_messages: list[MessageDetail]) -> None:
    nobody: Principal = replace(SYSTEM, permissions=frozenset())
    asks: list[Callable[[], Any]] = [
        lambda: list_messages(parse_filter({}), principal=nobody),
        lambda: get_message(some_messages[0].id, principal=nobody),
        lambda: payload(some_messages[0].id, principal=nobody),
        lambda: history(some_messages[0].id, principal=nobody),
        lambda: list(iter_messages(parse_filter({}), nobody, 1)),
    ]
    for ask in asks:
        with pytest.raises(NotAllowed):
            ask()


def test_a_search_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(QueryTooExpensive), bounded(1):
        fetch_values("SELECT pg_sleep(5)")
    assert fetch_values("SELECT 1") == [1]


WORDS = st.lists(st.sampled_from(["a", "b", "a.b", "x-1", "[^.]", "é", "a+", "$", "(", "\\d"]), min_size=1, max_size=5)
PATTERNS = st.lists(
    st.sampled_from(["a", "b", "x-1", "[^", "é", "a+", "$", "(", "\\d", "*", "#"]), min_size=1, max_size=5
)


@settings(max_examples=150, deadline=None, database=None)
@given(words=WORDS, pattern=PATTERNS)
def test_a_pattern_means_the_same_in_the_database(words: list[str], pattern: list[str]) -> None:
    address, wanted = ".".join(words), ".".join(pattern)
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s || '.' ~ %s", [address, pattern_regex(wanted)])
        assert cursor.fetchone()[0] is matches(wanted, address)
