"""A selection is a set of messages, frozen: what comes later does not join it, and its hash says what is in it."""

import pytest

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.search.commands import selections
from poisonadmin.search.commands.selections import InvalidSelection, TooManySelections, freeze, remove_expired
from poisonadmin.search.domain.selection import SelectionOrder, ids_hash
from poisonadmin.search.queries.selections import get_selection_detail, list_members
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Selection, SelectionPiece
from tests.fixtures.api import take_dead
from tests.fixtures.decisions import mark_fail, restore

pytestmark = pytest.mark.django_db
NDLV = {"state": ["NDLV"]}


def members(selection_id: int) -> list[int]:
    """Return the members in the order in which they are walked."""
    pieces = SelectionPiece.objects.filter(selection_id=selection_id).order_by("number")
    return [one for piece in pieces for one in piece.message_ids]


def test_what_comes_later_is_no_member_and_is_counted() -> None:
    before = [take_dead() for _ in range(3)]
    selection = freeze(NDLV, principal=SYSTEM)
    late = take_dead()
    found = get_selection_detail(selection, principal=SYSTEM)
    assert members(selection) == before
    assert (found.count, found.arrived_since) == (3, 1)
    assert found.hash == ids_hash(before)
    mark_fail([late, before[0]], principal=SYSTEM, reason="r")
    assert get_selection_detail(selection, principal=SYSTEM).arrived_since == 0
    assert members(selection) == before, "what is decided on stays a member"


def test_an_account_keeps_only_so_many_that_nothing_was_done_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "MAX_UNUSED_MEMBERS", 4)
    for _ in range(2):
        take_dead()
    used, _ = freeze(NDLV, principal=SYSTEM), freeze(NDLV, principal=SYSTEM)
    with pytest.raises(TooManySelections, match="2 selections of 4 messages"):
        freeze(NDLV, principal=SYSTEM)
    begin(used, OperationAction.FAIL, reason="r", principal=SYSTEM)
    freeze(NDLV, principal=principal("olga", Role.OPERATOR))


def test_an_old_message_that_meets_the_filter_only_now_has_arrived_since() -> None:
    member, other = take_dead(), take_dead()
    mark_fail([other], principal=SYSTEM, reason="r")
    selection = freeze(NDLV, principal=SYSTEM)
    restore([other], principal=SYSTEM, reason="r")
    assert members(selection) == [member]
    assert get_selection_detail(selection, principal=SYSTEM).arrived_since == 1


@pytest.mark.parametrize(
    ("order", "chosen"),
    [
        (SelectionOrder.OLDEST, [0, 1]),
        (SelectionOrder.NEWEST, [2, 3]),
        (SelectionOrder.OLDEST_FAILURE, [2, 3]),
        (SelectionOrder.NEWEST_FAILURE, [0, 1]),
    ],
)
def test_a_limited_selection_takes_the_first_in_its_order(order: SelectionOrder, chosen: list[int]) -> None:
    ids = [take_dead(failed_at=f"2026-01-0{9 - n}T00:00:00Z") for n in range(4)]
    selection = freeze(NDLV, order=order, most=2, principal=SYSTEM)
    assert sorted(members(selection)) == [ids[n] for n in chosen]


def test_a_random_sample_has_as_many_as_asked_for() -> None:
    ids = [take_dead() for _ in range(6)]
    found = members(freeze(NDLV, order=SelectionOrder.RANDOM, most=3, principal=SYSTEM))
    assert len(set(found)) == 3
    assert set(found) < set(ids)


def test_members_are_in_pieces_and_the_newest_first_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "MEMBERS_A_PIECE", 2)
    ids = [take_dead() for _ in range(5)]
    oldest, newest = (
        freeze(NDLV, order=order, principal=SYSTEM) for order in (SelectionOrder.OLDEST, SelectionOrder.NEWEST)
    )
    pieces = {
        one: [piece.message_ids for piece in SelectionPiece.objects.filter(selection_id=one).order_by("number")]
        for one in (oldest, newest)
    }
    assert pieces[oldest] == [ids[:2], ids[2:4], ids[4:]]
    assert pieces[newest] == [ids[3:], ids[1:3], ids[:1]]
    assert Selection.objects.get(id=oldest).ids_hash == Selection.objects.get(id=newest).ids_hash


def test_members_are_listed_page_by_page_as_they_are_now() -> None:
    ids = [take_dead() for _ in range(5)]
    selection = get_selection_detail(freeze(NDLV, principal=SYSTEM), principal=SYSTEM)
    mark_fail(ids[:1], principal=SYSTEM, reason="r")
    first = list_members(selection, principal=SYSTEM, limit=2)
    second = list_members(selection, principal=SYSTEM, limit=2, cursor=first.next)
    assert [(row.id, row.state) for row in first.results] == [(ids[0], "FAIL"), (ids[1], "NDLV")]
    assert [row.id for row in second.results] == ids[2:4]
    assert list_members(selection, principal=SYSTEM, limit=2, cursor=second.previous).results == first.results


def test_only_what_is_in_scope_becomes_a_member_and_others_do_not_see_the_selection() -> None:
    mine, other = take_dead("orders.eu"), take_dead("billing.eu")
    limited = principal("kim", Role.OPERATOR, ["orders.#"])
    assert members(freeze(NDLV, principal=limited)) == [mine]
    assert members(freeze(ids=[mine, other, other + 1000], principal=limited)) == [mine]
    whole = freeze(NDLV, principal=SYSTEM)
    with pytest.raises(NotFound):
        get_selection_detail(whole, principal=limited)
    assert get_selection_detail(whole, principal=SYSTEM).count == 2


def test_an_empty_selection_is_empty() -> None:
    found = get_selection_detail(freeze({"address": ["nowhere"]}, principal=SYSTEM), principal=SYSTEM)
    assert (found.count, found.hash) == (0, ids_hash([]))


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(InvalidFilter, match="nonsense"):
        freeze({"nonsense": ["x"]}, principal=SYSTEM)
    with pytest.raises(InvalidSelection, match="filter or ids"):
        freeze(principal=SYSTEM)
    with pytest.raises(InvalidSelection, match="limit"):
        freeze(NDLV, most=0, principal=SYSTEM)
    assert not Selection.objects.exists()


def test_one_that_nothing_was_done_with_goes_after_a_day() -> None:
    take_dead()
    used, unused, young = (freeze(NDLV, principal=SYSTEM) for _ in range(3))
    Selection.objects.filter(id__in=[used, unused]).update(expires_at="2020-01-01T00:00:00Z")
    Selection.objects.filter(id=used).update(used_at="2020-01-01T00:00:00Z")
    assert remove_expired() == 1
    assert set(Selection.objects.values_list("id", flat=True)) == {used, young}
    assert set(SelectionPiece.objects.values_list("selection_id", flat=True)) == {used, young}
    assert Message.objects.count() == 1
