"""Operations and clicks at the same moment: exactly one decides on each message, and the other is told."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import connections

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.commands import decisions
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.messages.commands.counts import fold
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.faults.invariants import all_broken
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_destination
from tests.messages.overlap import overlap, rows

pytestmark = pytest.mark.django_db(transaction=True)
APPROVE, FAIL = OperationAction.APPROVE, OperationAction.FAIL
THREADS = 50


@pytest.fixture(autouse=True)
def shop(transactional_db: None) -> None:
    """Make the shop."""
    make_destination()


def closing(work: "partial[object]") -> object:
    """Do the work and close the thread's connection."""
    try:
        return work()
    finally:
        connections.close_all()


def test_of_fifty_who_decide_on_one_message_one_wins_and_the_others_are_told() -> None:
    message = take_dead()
    works = [
        partial(decide_on, [message], (APPROVE, FAIL)[n % 2], reason=f"number {n}", principal=SYSTEM)
        for n in range(THREADS)
    ]
    with ThreadPoolExecutor(THREADS) as threads:
        decided = list(threads.map(closing, works))
    assert Counter(bool(one.changed) for one in decided) == {True: 1, False: THREADS - 1}  # type: ignore[attr-defined]
    assert History.objects.filter(message_id=message, event__in=["approved", "marked_fail"]).count() == 1
    for operation in Operation.objects.all():
        assert get_operation(operation.id, principal=SYSTEM).ledger.total == 1
    fold()
    assert all_broken(rows) == []


def test_operations_that_overlap_share_the_messages_and_clicks_take_theirs() -> None:
    ids = [take_dead() for _ in range(60)]
    frozen = [freeze({"state": ["NDLV"]}, principal=SYSTEM) for _ in range(4)]
    works = [
        partial(begin, selection, (APPROVE, FAIL)[n % 2], reason=f"number {n}", principal=SYSTEM)
        for n, selection in enumerate(frozen)
    ]
    works += [partial(decide_on, [one], FAIL, reason="a click", principal=SYSTEM) for one in ids[::10]]
    with ThreadPoolExecutor(len(works)) as threads:
        list(threads.map(closing, works))
    decided = Counter(
        History.objects.filter(event__in=["approved", "marked_fail"]).values_list("message_id", flat=True)
    )
    assert decided == dict.fromkeys(ids, 1)
    changed = approved = 0
    for operation in Operation.objects.all():
        ledger = get_operation(operation.id, principal=SYSTEM).ledger
        assert ledger.total == operation.count
        changed += ledger.changed
        approved += ledger.unanswered
    assert (changed, approved) == (
        Message.objects.filter(state="FAIL").count(),
        Message.objects.filter(state="TBDL").count(),
    )
    fold()
    assert all_broken(rows) == []


@pytest.mark.parametrize("least_quick", [1, 101], ids=["quick", "locked"])
def test_what_a_click_takes_while_an_operation_waits_for_it_is_left_to_the_click(
    least_quick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "LEAST_QUICK", least_quick)
    first, clicked, last = (take_dead() for _ in range(3))
    selection = freeze({"state": ["NDLV"]}, principal=SYSTEM)
    found = overlap(
        lambda: decide_on([clicked], FAIL, reason="a click", principal=SYSTEM),
        lambda: begin(selection, APPROVE, reason="all of them", principal=SYSTEM),
    )
    assert found.waited
    ledger = get_operation(found.second, principal=SYSTEM)
    assert (ledger.ledger.unanswered, [(one.code, one.count) for one in ledger.skipped]) == (2, [("FAIL", 1)])
    assert list(Message.objects.filter(state="TBDL").values_list("id", flat=True).order_by("id")) == [first, last]
    fold()
    assert all_broken(rows) == []
