"""Redirecting: messages are delivered to another address than their return address, where that takes them."""

from typing import Any

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, OutOfScope, Role, principal
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Address, Conversation
from poisonadmin.store.models.message import Hop, Message
from poisonadmin.store.models.poison import PoisonEntry
from tests.fixtures import decisions
from tests.fixtures.api import Caller, take, take_dead
from tests.fixtures.delivery import claim, counted, counters, make_destination
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db
REDIRECT = OperationAction.REDIRECT
DEAD = {"reason": "gave up", "exception_class": "TimeoutError"}
WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "r"}
NEVER_NAMED = "orders.repaired"


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver."""
    make_destination()


def to(address: str) -> dict[str, str]:
    return {"address": address}


def redirect(ids: list[int], address: str, **more: Any) -> int:
    return begin(freeze(ids=ids, principal=SYSTEM), REDIRECT, params=to(address), **{**WHY, **more})


def test_a_message_is_delivered_at_an_address_that_nobody_has_named_yet() -> None:
    message = take_dead("orders.eu")
    operation = redirect([message], NEVER_NAMED)
    row = Message.objects.get(id=message)
    assert (row.state, row.address.name, row.failure_count, row.operation_id) == ("TBDL", NEVER_NAMED, 0, operation)
    assert row.original_address
    assert row.original_address.name == "orders.eu"
    hop = Hop.objects.get(message_id=message)
    assert (hop.from_address, hop.to_address, hop.reason, hop.by) == ("orders.eu", NEVER_NAMED, "redirected", "system")
    change_ = History.objects.filter(message_id=message).latest("seq")
    assert (change_.event, change_.note, change_.operation_id) == ("redirected", "r", operation)
    assert get_operation(operation, principal=SYSTEM).params == to(NEVER_NAMED)
    assert counted() == counters()
    assert list(Message.objects.filter(claim_id=claim().id).values_list("id", flat=True)) == [message]


@pytest.mark.parametrize(
    ("original", "here", "target", "original_then"),
    [
        (None, "orders.eu", "orders.us", "orders.eu"),
        ("orders.eu", "orders.dlq", "orders.us", "orders.eu"),
        ("orders.eu", "orders.dlq", "orders.eu", None),
        ("orders.eu", "orders.dlq", "orders.dlq", "orders.eu"),
        (None, "orders.eu", "orders.eu", None),
    ],
)
def test_where_it_was_first_is_kept_and_a_cancelled_redirect_puts_it_back(
    original: str | None, here: str, target: str, original_then: str | None
) -> None:
    known = {} if original is None else {"original_address": original}
    message = take_dead(here, **known)
    operation = redirect([message], target)

    def places() -> tuple[str, str | None]:
        row = Message.objects.get(id=message)
        return row.address.name, row.original_address.name if row.original_address else None

    assert places() == (target, original_then)
    change(operation, OperationChange.CANCEL, **WHY)
    carry_on()
    assert Message.objects.get(id=message).state == "NDLV"
    assert places() == (here, original)
    assert counted() == counters()


def test_what_the_target_does_not_take_is_left_alone_and_the_preview_says_so() -> None:
    save_policy("orders.small", preset=None, settings={"max_payload_bytes": 10}, destination=None, principal=SYSTEM)
    fine = take("orders.eu", "x", dead_letter=DEAD)
    large = take("orders.eu", "x" * 50, dead_letter=DEAD)
    listed = take("orders.eu", "x", bookmark="b 1", dead_letter=DEAD)
    report(Report("orders.small", "b 1", "unreadable"), principal=SYSTEM)
    take("orders.small", "x")
    ended = take("orders.eu", "x", conversation_id="c", dead_letter=DEAD)
    Conversation.objects.create(
        address_id=Address.objects.get(name="orders.small").id, conversation_id="c", ended_at="2026-01-01T00:00Z"
    )
    selection = get_selection(freeze(ids=[fine, large, listed, ended], principal=SYSTEM), principal=SYSTEM)
    foreseen = preview(selection, REDIRECT, principal=SYSTEM, params=to("orders.small"))
    codes = {"oversized": large, "listed": listed, "conversation_ended": ended}
    assert {one.code: (one.count, one.detail) for one in foreseen.refused} == dict.fromkeys(codes, (1, "orders.small"))
    assert [(one.address, one.destination, one.count) for one in foreseen.targets] == [("orders.small", "shop", 1)]
    decided = decide_on([fine, large, listed, ended], REDIRECT, params=to("orders.small"), **WHY)
    assert (decided.changed, decided.refused) == ((fine,), {message: code for code, message in codes.items()})


def test_to_nowhere_nothing_goes_and_no_address_is_made() -> None:
    message = take_dead()
    operation = redirect([message], "elsewhere.typo")
    assert [(one.code, one.count) for one in get_operation(operation, principal=SYSTEM).skipped] == [
        ("no_destination", 1)
    ]
    assert not Address.objects.filter(name="elsewhere.typo").exists()


def test_an_entry_of_the_poison_list_stays_for_the_consumers_of_the_source() -> None:
    message = take("orders.eu", "x", bookmark="b 1")
    report(Report("orders.eu", "b 1", "unreadable"), principal=SYSTEM)
    redirect([message], NEVER_NAMED)
    assert Message.objects.get(id=message).state == "TBDL"
    assert PoisonEntry.objects.get().is_listed


def test_an_address_out_of_scope_is_none_whether_it_exists_or_not() -> None:
    message = take_dead("orders.eu")
    take("invoices.eu")
    limited = principal("kim", Role.OPERATOR, ["orders.#"])
    said = set()
    for target in ("invoices.eu", "invoices.none"):
        with pytest.raises(OutOfScope) as error:
            decide_on([message], REDIRECT, principal=limited, reason="r", params=to(target))
        selection = get_selection(freeze(ids=[message], principal=limited), principal=limited)
        with pytest.raises(OutOfScope):
            preview(selection, REDIRECT, principal=limited, params=to(target))
        said.add(error.value.detail.replace(target, "?"))
    assert len(said) == 1
    assert not History.objects.filter(message_id=message, event="redirected").exists()


@pytest.mark.parametrize(
    ("action", "params", "field"),
    [
        (REDIRECT, None, "params.address"),
        (REDIRECT, to("two words"), "params.address"),
        (REDIRECT, to("orders.#"), "params.address"),
        (REDIRECT, {"address": "orders.us", "adress": "x"}, "params.adress"),
        (OperationAction.APPROVE, to("orders.us"), "params.address"),
    ],
)
def test_parameters_are_checked(action: OperationAction, params: dict[str, Any] | None, field: str) -> None:
    with pytest.raises(InvalidOperation) as error:
        begin({"state": ["NDLV"]}, action, params=params, **WHY)
    assert error.value.field == field


def test_over_the_api_for_a_set_and_for_one(operator: Caller) -> None:
    messages = [take_dead() for _ in range(3)]
    selection = operator.post("selections/", {"ids": [str(one) for one in messages[:2]]}).json()["id"]
    asked = {"action": "redirect", "params": to(NEVER_NAMED)}
    foreseen = operator.post(f"selections/{selection}/preview/", asked).json()
    [target] = foreseen["targets"]
    assert target == {
        "address": NEVER_NAMED,
        "destination": "shop",
        "has_destination": True,
        "waits": None,
        "count": 2,
    }
    assert operator.get(f"selections/{selection}/preview/?action=redirect").json()["code"] == "invalid_operation"
    begun = operator.post("operations/", {**asked, "selection": selection, "reason": "r"}).json()
    assert (begun["params"], begun["ledger"]["unanswered"]) == (to(NEVER_NAMED) | {"waive": []}, 2)
    one = operator.post(f"messages/{messages[2]}/redirect/", {"reason": "r", "address": NEVER_NAMED}).json()
    assert (one["state"], one["address"], one["original_address"]) == ("TBDL", NEVER_NAMED, "orders.eu")
    again = operator.post(f"messages/{messages[2]}/redirect/", {"reason": "r", "address": NEVER_NAMED})
    assert again.json()["code"] == "transition_not_allowed"


def test_on_the_page_of_a_selection_it_is_previewed_before_it_is_begun(operator_browser: Client) -> None:
    message = take_dead()
    page = f"/operations/selections/{freeze(ids=[message], principal=SYSTEM)}/?action=redirect"
    assert "will be redirected" not in html_of(operator_browser.get(page))
    wrong = operator_browser.post(page, {"address": "two words"})
    assert "spaces and unprintable characters" in html_of(wrong)
    foreseen = html_of(operator_browser.post(page, {"address": NEVER_NAMED}))
    assert "1 of 1 will be redirected" in foreseen
    assert "This is required" not in foreseen
    assert Message.objects.get(id=message).state == "NDLV"
    assert "This is required" in html_of(operator_browser.post(page, {"address": NEVER_NAMED, "begin": "1"}))
    begun = operator_browser.post(page, {"address": NEVER_NAMED, "begin": "1", "reason": "r"})
    assert NEVER_NAMED in html_of(operator_browser.get(begun["Location"]))
    assert Message.objects.get(id=message).state == "TBDL"


def test_on_the_page_of_a_message_the_dialog_asks_where_to(operator_browser: Client) -> None:
    message = take_dead()
    sent = {"id": message, "origin": "message", "reason": "r"}
    dialog = html_of(operator_browser.post("/messages/decide/redirect/", sent))
    assert "Deliver to the address" in dialog
    for address, error in (
        ("", "Say where"),
        ("two words", "spaces"),
        ("elsewhere.x", "delivers nowhere"),
    ):
        answer = operator_browser.post("/messages/decide/redirect/now/", {**sent, "address": address})
        assert answer.status_code == 422
        assert error in html_of(answer)
    operator_browser.post("/messages/decide/redirect/now/", {**sent, "address": NEVER_NAMED})
    assert Message.objects.get(id=message).address.name == NEVER_NAMED


def test_it_is_returned_from_where_it_failed_again() -> None:
    message = take_dead("orders.eu")
    redirect([message], NEVER_NAMED)
    decisions.quarantine([message], **WHY)
    assert decisions.return_to_original([message], **WHY).changed == (message,)
    assert Message.objects.get(id=message).address.name == "orders.eu"
