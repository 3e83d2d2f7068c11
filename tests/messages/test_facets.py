"""Facets and totals against a plain look at every message, from the counters and from a scan."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal, Role, principal
from poisonadmin.core.queries.paging import Count
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counts import counts, empty
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.search.domain.filters import MessageFilter, parse_filter
from poisonadmin.search.queries import facets as facets_module
from poisonadmin.search.queries.facets import Facet, facets
from poisonadmin.search.queries.lists import iter_messages
from tests.fixtures import decisions
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter
from tests.messages.test_filters import CASES, make_messages

pytestmark = pytest.mark.django_db

LIMITED = principal("kim", Role.VIEWER, ["*.eu.#", "parked.#"])
MORE_CASES: list[dict[str, list[str]]] = [
    {"original_address": ["orders.eu"]},
    {"q": ["!original_address:orders.#"]},
    {"q": ["!group:1 state:NDLV"]},
    {"state": ["NDLV"], "q": ["m_1"]},
]
FILTERS = [params for params, _ in CASES] + MORE_CASES


@pytest.fixture(scope="module", autouse=True)
def some_messages(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock(), transaction.atomic():
        make_messages()
        yield
        transaction.set_rollback(True)


def values_of(row: MessageRow) -> dict[str, str | None]:
    return {
        "state": row.state,
        "reason": row.reason,
        "group": None if row.group_id is None else str(row.group_id),
        "address": row.address,
        "original_address": row.original_address,
    }


def expected_facet(message_filter: MessageFilter, field: str, reader: Principal) -> Counter[str]:
    others = replace(message_filter, terms=tuple(term for term in message_filter.terms if term.field != field))
    values = (values_of(row)[field] for row in iter_messages(others, reader, 1000))
    return Counter(value for value in values if value is not None)


@pytest.mark.parametrize("reader", [SYSTEM, LIMITED], ids=["all", "limited"])
@pytest.mark.parametrize("params", FILTERS, ids=str)
def test_facets_count_what_the_list_shows(params: dict[str, list[str]], reader: Principal) -> None:
    message_filter = parse_filter(params)
    found = facets(message_filter, principal=reader)
    assert found.total == Count(len(list(iter_messages(message_filter, reader, 1000))), capped=False)
    for field in ("state", "reason", "group", "address", "original_address"):
        facet: Facet = getattr(found, field)
        counted = Counter({one.value: one.count for one in facet.values if one.count})
        assert counted == expected_facet(message_filter, field, reader), field
        assert facet.others == 0


def test_a_facet_of_states_has_every_state_and_others_are_named() -> None:
    found = facets(parse_filter({}), principal=SYSTEM)
    assert [one.value for one in found.state.values] == [str(state) for state in State]
    assert {one.label for one in found.group.values} == {"TimeoutError: gone", "KeyError: gone"}
    assert [one.count for one in found.address.values] == [8] * 5


@pytest.mark.parametrize("params", [{}, {"q": ["m_"]}], ids=["counted", "scanned"])
def test_what_is_not_shown_of_a_facet_is_counted_together(params: dict[str, list[str]]) -> None:
    found = facets(parse_filter(params), principal=SYSTEM, limit=2).address
    assert len(found.values) == 2
    assert found.others == 40 - sum(one.count for one in found.values)


def test_a_scan_stops_at_its_cap_and_counters_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facets_module, "CAP", 20)
    scanned = facets(parse_filter({"q": ["m_"]}), principal=SYSTEM)
    assert scanned.total == Count(20, capped=True)
    assert sum(one.count for one in scanned.address.values) == 21
    assert facets(parse_filter({}), principal=SYSTEM).total == Count(40, capped=False)


def test_facets_that_take_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facets_module, "COUNT_SECONDS", 0.05)
    monkeypatch.setattr(facets_module, "matching", lambda *_: Sql("SELECT m.* FROM message m, pg_sleep(1)"))
    found = facets(parse_filter({"q": ["m_"]}), principal=SYSTEM)
    assert found.total is None
    assert found.state == found.address == Facet((), 0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        assert cursor.fetchone()[0] != "50ms"


def test_reading_facets_takes_the_permission() -> None:
    with pytest.raises(NotAllowed):
        facets(parse_filter({}), principal=replace(SYSTEM, permissions=frozenset()))


def test_counts_tell_original_addresses_apart() -> None:
    before = counts(SYSTEM).by_original_address
    moved = dead_letter("parking", dead_letter={"original_address": "orders.eu"})
    after = counts(SYSTEM).by_original_address
    assert after["orders.eu"]["NDLV"] - before.get("orders.eu", empty())["NDLV"] == 1
    make_orders_destination()
    decisions.approve([moved.id], principal=SYSTEM, reason="r")
    assert counts(SYSTEM).by_original_address == before
