"""Releasing: what is on the poison list is approved, and its entries are released with it."""

from typing import Any

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.poison import PoisonEntry
from tests.fixtures import decisions
from tests.fixtures.api import Caller, take, take_dead
from tests.fixtures.delivery import counted, counters, make_destination

pytestmark = pytest.mark.django_db
RELEASE = OperationAction.RELEASE
WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "the parser is mended"}
DEAD = {"reason": "gave up", "exception_class": "TimeoutError"}


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver."""
    make_destination()


def stopped(address: str, bookmark: str) -> int:
    """Return a message that waited until its bookmark was reported."""
    message = take(address, "x", bookmark=bookmark)
    report(Report(address, bookmark, "unreadable"), principal=SYSTEM)
    return message


def is_listed(bookmark: str) -> bool:
    return bool(PoisonEntry.objects.get(bookmark=bookmark).is_listed)


def test_entries_are_released_and_their_messages_approved_or_handed_back() -> None:
    delivered, parked = stopped("orders.eu", "b 1"), stopped("elsewhere.x", "b 2")
    other = stopped("orders.eu", "b 3")
    # Handed in as a dead letter while its bookmark was listed.
    imported = take("orders.eu", "y", bookmark="b 3", dead_letter=DEAD)
    decisions.mark_fail([other], **WHY)
    undecided = take_dead()
    ids = [delivered, parked, imported, undecided, other]
    selection = get_selection(freeze(ids=ids, principal=SYSTEM), principal=SYSTEM)
    foreseen = preview(selection, RELEASE, principal=SYSTEM)
    operation = begin(selection.id, RELEASE, **WHY)
    assert {one.code: one.count for one in foreseen.refused} == {"not_listed": 1, "FAIL": 1}
    found = get_operation(operation, principal=SYSTEM)
    assert {one.code: one.count for one in found.skipped} == {"not_listed": 1, "FAIL": 1}
    assert (found.ledger.unanswered, found.ledger.changed) == (2, 1)
    states = {row.id: (row.state, row.reason) for row in Message.objects.filter(id__in=ids)}
    assert states[delivered] == states[imported] == ("TBDL", None)
    assert states[parked] == ("DLVD", "handed_back")
    assert not any(map(is_listed, ("b 1", "b 2", "b 3")))
    assert counted() == counters()


def test_an_entry_stays_when_its_message_can_go_nowhere() -> None:
    message = stopped("orders.eu", "b 1")
    moved = take("elsewhere.x", "x", bookmark="b 2", dead_letter=DEAD)
    report(Report("elsewhere.x", "b 2", "unreadable"), principal=SYSTEM)
    operation = begin(freeze(ids=[message, moved], principal=SYSTEM), RELEASE, **WHY)
    skipped = get_operation(operation, principal=SYSTEM).skipped
    assert [(one.code, one.count) for one in skipped] == [("no_destination", 1)]
    assert is_listed("b 2")
    assert not is_listed("b 1")


def test_of_two_messages_with_one_bookmark_the_other_is_left_for_a_decision() -> None:
    first, second = take("orders.eu", "x", bookmark="b"), take("orders.eu", "y", bookmark="b")
    report(Report("orders.eu", "b", "unreadable"), principal=SYSTEM)
    assert decisions.release([first], **WHY).changed == (first,)
    assert not is_listed("b")
    assert Message.objects.get(id=second).state == "NDLV"
    assert decisions.release([second], **WHY).changed == (second,)


def test_one_message_over_the_api(operator: Caller) -> None:
    message = stopped("orders.eu", "b 1")
    assert operator.post(f"messages/{message}/release/", {"reason": "r"}).json()["state"] == "TBDL"
    assert not is_listed("b 1")
    refused = operator.post(f"messages/{take_dead()}/release/", {"reason": "r"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_listed")
