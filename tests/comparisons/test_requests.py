"""Comparisons as rows: asked for, carried out once, cancelled, cut off, seen by who sees both sides."""

from dataclasses import replace
from typing import Any

import pytest
from django.db.models.functions import Now

from poisonadmin.comparisons.commands.carry_out import Report
from poisonadmin.comparisons.commands.requests import (
    COMPARISON,
    cancel_comparison,
    compare_ids,
    request_comparison,
)
from poisonadmin.comparisons.domain.association import Association
from poisonadmin.comparisons.domain.comparison import Compared, ComparisonAnswer
from poisonadmin.comparisons.domain.conditions import FieldCondition, Operator
from poisonadmin.comparisons.domain.findings import Finding
from poisonadmin.comparisons.queries import chosen
from poisonadmin.comparisons.queries.comparisons import ComparisonResult, ComparisonRow, get_comparison
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.runs.commands.requests import RunEnded, TooManyRuns
from poisonadmin.search.commands.selections import InvalidSelection
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import count_messages
from poisonadmin.store.models.message import Envelope
from poisonadmin.store.models.operation import Selection
from poisonadmin.store.models.run import LongRun
from tests.comparisons.incident import compare_due, incident

pytestmark = pytest.mark.django_db(transaction=True)
UNDECIDED = {"state": ["NDLV"]}
FOUND = Finding((FieldCondition("key.customer", Operator.IS, "c-7"),), Association(9, 10, 5, 100), 0.001)


class Comparer:
    """Stands for Spark: notes what it was asked, and finds the same each time."""

    def __init__(self) -> None:
        self.asked: list[Compared] = []

    def __call__(self, asked: Compared, report: Report) -> ComparisonAnswer:
        self.asked.append(asked)
        report("reading messages and counting values")
        return ComparisonAnswer(len(asked.failing), len(asked.others), 7, 70, [FOUND])


def fields(n: int, is_failing: bool) -> dict[str, Any]:
    return {"payload": {"n": n}}


def carried_out(compare: Any, comparison_id: int) -> ComparisonRow:
    compare_due(compare)
    return get_comparison(comparison_id, principal=SYSTEM)


def result_of(row: ComparisonRow) -> ComparisonResult:
    assert row.result is not None
    return row.result


def test_failures_are_compared_with_what_was_delivered_at_the_same_address_in_the_same_time() -> None:
    failing, others = incident(10, 40, fields)
    incident(3, 20, fields, address="orders.us")
    Envelope.objects.filter(id__in=others[:15]).update(received_at="2020-01-01T00:00:00Z")
    asked = request_comparison(message_filter=UNDECIDED | {"address": ["orders.eu"]}, principal=SYSTEM)
    compare = Comparer()
    carried_out(compare, asked)
    assert compare.asked == [Compared(failing, others[15:], with_payload=True)]
    shown = get_comparison(asked, principal=SYSTEM)
    result = result_of(shown)
    assert (shown.state, result.failing_count, result.others_count, result.fields) == ("succeeded", 10, 25, 7)
    assert shown.against is not None
    assert (shown.against["state"], shown.against["address"]) == (["DLVD"], ["orders.eu"])
    assert count_messages(parse_filter(shown.against), principal=SYSTEM).n == 25
    (finding,) = result.findings
    assert finding.text == "90 % of these have `key.customer = c-7`, of those delivered 5 %."
    assert (finding.share, finding.share_of_others, finding.lift) == (0.9, 0.05, 18.0)


def test_what_it_is_compared_with_can_be_given() -> None:
    failing, others = incident(5, 20, fields)
    compare = Comparer()
    against = {"ids": [1]}
    with pytest.raises(InvalidFilter):
        request_comparison(message_filter=UNDECIDED, against=against, principal=SYSTEM)
    asked = request_comparison(
        message_filter={"state": ["DLVD"]}, against={"state": ["NDLV", "DLVD"]}, principal=SYSTEM
    )
    carried_out(compare, asked)
    assert (compare.asked[0].failing, compare.asked[0].others) == (others, failing)
    assert "of the others" in result_of(get_comparison(asked, principal=SYSTEM)).findings[0].text


def test_of_many_the_same_ones_are_chosen_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    failing, others = incident(30, 60, fields)
    monkeypatch.setattr(chosen, "MAX_FAILING", 10)
    monkeypatch.setattr(chosen, "MAX_OTHERS", 20)
    asked = request_comparison(message_filter=UNDECIDED, principal=SYSTEM)
    compare = Comparer()
    carried_out(compare, asked)
    LongRun.objects.update(state="queued", ended_at=None)
    row = result_of(carried_out(compare, asked))
    assert compare.asked[0] == compare.asked[1]
    assert (len(compare.asked[0].failing), len(compare.asked[0].others)) == (10, 20)
    assert (row.failing_count, row.failing, row.others_count, row.others) == (30, 10, 60, 20)
    assert set(compare.asked[0].failing) < set(failing)
    assert set(compare.asked[0].others) < set(others)


def test_where_everything_fails_it_is_compared_with_what_was_delivered_elsewhere() -> None:
    failing, _ = incident(5, 0, fields)
    _, others = incident(0, 10, fields, address="orders.us")
    Envelope.objects.update(received_at=Now())
    asked = compare_ids(failing, principal=SYSTEM)
    compare = Comparer()
    row = carried_out(compare, asked)
    # That they are at other addresses is no finding.
    assert compare.asked == [Compared(failing, others, with_payload=True, excluded_fields=("address",))]
    assert "address" not in (row.against or {})
    mine = compare_ids(failing, principal=principal("pat", Role.OPERATOR, ["orders.eu"]))
    assert result_of(carried_out(compare, mine)).others == 0


def test_without_others_nothing_is_found() -> None:
    failing, _ = incident(5, 0, fields)
    asked = compare_ids(failing, principal=SYSTEM)
    compare = Comparer()
    row = carried_out(compare, asked)
    result = result_of(row)
    assert (row.state, result.failing, result.others, result.findings, compare.asked) == ("succeeded", 5, 0, [], [])


def test_one_that_is_cancelled_goes_on_no_more() -> None:
    incident(5, 20, fields)
    asked = request_comparison(message_filter=UNDECIDED, principal=SYSTEM)

    def compare(_: Compared, report: Report) -> ComparisonAnswer:
        cancel_comparison(asked, principal=SYSTEM)
        report("looking for thresholds")
        raise AssertionError("it went on")

    row = carried_out(compare, asked)
    assert (row.state, result_of(row).findings) == ("cancelled", [])
    with pytest.raises(RunEnded):
        cancel_comparison(asked, principal=SYSTEM)


def test_one_that_ends_its_worker_is_begun_anew_and_given_up_in_the_end() -> None:
    incident(5, 20, fields)
    asked = request_comparison(message_filter=UNDECIDED, principal=SYSTEM)

    def killed(_: Compared, __: Report) -> ComparisonAnswer:
        raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            compare_due(killed)
    row = carried_out(Comparer(), asked)
    assert row.state == "failed"
    assert "3 times" in (row.error or "")


def test_one_that_fails_says_why() -> None:
    incident(5, 20, fields)
    asked = request_comparison(message_filter=UNDECIDED, principal=SYSTEM)

    def failing(_: Compared, __: Report) -> ComparisonAnswer:
        raise ValueError("no space left")

    with pytest.raises(ValueError, match="no space"):
        compare_due(failing)
    row = get_comparison(asked, principal=SYSTEM)
    assert (row.state, row.error) == ("failed", "ValueError: no space left")


def test_an_account_has_so_many_that_are_not_over() -> None:
    failing, _ = incident(2, 2, fields)
    for _ in range(COMPARISON.max_open or 0):
        compare_ids(failing, principal=SYSTEM)
    with pytest.raises(TooManyRuns):
        compare_ids(failing, principal=SYSTEM)


def test_who_is_limited_to_addresses_compares_within_these_and_sees_no_others() -> None:
    incident(5, 20, fields)
    failing, others = incident(4, 10, fields, address="orders.us")
    limited = principal("pat", Role.OPERATOR, ["orders.us"])
    mine = request_comparison(message_filter=UNDECIDED, against={"state": ["DLVD"]}, principal=limited)
    whole = request_comparison(message_filter=UNDECIDED, principal=SYSTEM)
    beyond = request_comparison(
        message_filter=UNDECIDED | {"address": ["orders.us"]}, against={"state": ["DLVD"]}, principal=SYSTEM
    )
    compare = Comparer()
    compare_due(compare)
    assert compare.asked[0] == Compared(failing, others, with_payload=True, destinations=[])
    assert result_of(get_comparison(mine, principal=limited)).others == 10
    for one in (whole, beyond):
        with pytest.raises(NotFound):
            get_comparison(one, principal=limited)
        with pytest.raises(NotFound):
            cancel_comparison(one, principal=limited)


def test_payloads_are_compared_for_those_who_may_read_them_only() -> None:
    failing, _ = incident(5, 20, fields)
    without = replace(SYSTEM, permissions=frozenset({Permission.READ}))
    asked = compare_ids(failing, principal=without)
    compare = Comparer()
    carried_out(compare, asked)
    assert compare.asked[0].with_payload is False
    assert get_comparison(asked, principal=without).state == "succeeded"
    with pytest.raises(NotAllowed):
        get_comparison(compare_ids(failing, principal=SYSTEM), principal=without)
    with pytest.raises(NotAllowed):
        compare_ids(failing, principal=replace(SYSTEM, permissions=frozenset()))


def test_no_messages_are_not_compared_and_leave_no_selection() -> None:
    with pytest.raises(InvalidSelection, match="has no message"):
        request_comparison(message_filter=UNDECIDED, principal=SYSTEM)
    assert not LongRun.objects.exists()
    assert not Selection.objects.exists()
