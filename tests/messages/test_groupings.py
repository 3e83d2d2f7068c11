"""Messages grouped by what they have in common, against a plain look at every message."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction

from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import Count
from poisonadmin.messages.queries import groupings
from poisonadmin.messages.queries.detail import MessageDetail, get_message
from poisonadmin.messages.queries.filters import parse_filter
from poisonadmin.messages.queries.groupings import MessagesAlike, grouped
from poisonadmin.messages.queries.lists import iter_messages
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.lane import Address
from tests.messages.test_filters import make_messages

pytestmark = pytest.mark.django_db

LIMITED = principal("kim", Role.VIEWER, ["*.eu.#"])
Value = Callable[[MessageDetail], str | None]
BY: dict[str, Value] = {
    "group": lambda m: None if m.group_id is None else str(m.group_id),
    "address": lambda m: m.address,
    "original_address": lambda m: m.original_address,
    "destination": lambda m: "shop" if m.address.startswith("orders") else None,
    "state": lambda m: m.state,
    "reason": lambda m: m.reason,
    "header.X-Kind": lambda m: m.headers["X-Kind"],
    "key.order": lambda _: None,
}


@pytest.fixture(scope="module", autouse=True)
def some_messages(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock(), transaction.atomic():
        make_messages()
        shop = Destination.objects.create(name="shop", owner="#", kind="http", config={})
        Address.objects.filter(name__startswith="orders").update(destination_id=shop.id)
        yield
        transaction.set_rollback(True)


def undecided_first(row: MessagesAlike) -> tuple[int, int]:
    return -row.undecided, -row.count


@pytest.mark.parametrize("params", [{}, {"state": ["NDLV"]}, {"q": ["m_1"]}], ids=str)
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("reader", [SYSTEM, LIMITED], ids=["all", "limited"])
def test_a_grouping_counts_what_the_list_shows(reader: Principal, by: str, params: dict[str, list[str]]) -> None:
    message_filter = parse_filter(params)
    listed = [get_message(row.id, principal=reader) for row in iter_messages(message_filter, reader, 1000)]
    value = BY[by] if reader is SYSTEM or by != "destination" else lambda _: None
    found = grouped(message_filter, by=by, principal=reader)
    assert {row.value: row.count for row in found.rows} == Counter(value(one) for one in listed)
    undecided = Counter(value(one) for one in listed if one.state == "NDLV")
    assert {row.value: row.undecided for row in found.rows if row.undecided} == undecided
    assert [undecided_first(row) for row in found.rows] == sorted(map(undecided_first, found.rows))
    assert (found.found, found.total) == (len(found.rows), Count(len(listed), capped=False))


def test_failures_come_in_any_order() -> None:
    early, late = FailureGroup.objects.order_by("last_at")
    FailureGroup.objects.filter(id=early.id).update(first_at=late.last_at)

    def ids(ordering: str) -> list[str]:
        rows = grouped(parse_filter({}), by="group", principal=SYSTEM, ordering=ordering).rows
        return [row.value for row in rows if row.value is not None]

    assert ids("-last_at") == [str(late.id), str(early.id)]
    assert ids("-first_at") == [str(early.id), str(late.id)]


def test_what_goes_beyond_the_limit_is_known() -> None:
    every = grouped(parse_filter({}), by="address", principal=SYSTEM).rows
    some = grouped(parse_filter({}), by="address", principal=SYSTEM, limit=2, offset=2)
    assert (some.rows, some.found, some.total) == (every[2:4], 5, Count(40, capped=False))


def test_a_scan_stops_at_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groupings, "CAP", 20)
    assert grouped(parse_filter({"q": ["m_"]}), by="address", principal=SYSTEM).total == Count(20, capped=True)


@pytest.mark.parametrize(
    ("by", "ordering"), [("colour", "-size"), ("header.", "-size"), ("address", "-last_at"), ("group", "size")]
)
def test_what_cannot_be_grouped_or_ordered_is_refused(by: str, ordering: str) -> None:
    with pytest.raises(InvalidFilter):
        grouped(parse_filter({}), by=by, principal=SYSTEM, ordering=ordering)
