"""What a redirect or a change is told is kept while it waits for a sign-off, and the reviewer sees it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, OutOfScope, Permission, Principal, Role, principal
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin, decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.operations import OperationDetail, get_operation, list_operations
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Body, Message
from poisonadmin.store.models.operation import Operation
from tests.fixtures.api import take, take_dead
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import html_of, make_user

pytestmark = pytest.mark.django_db
REDIRECT, PATCH = OperationAction.REDIRECT, OperationAction.PATCH
OLGA = principal("olga", Role.OPERATOR)
RITA = principal("rita", Role.REVIEWER)
ADA = principal("ada", Role.ADMIN)
MENDED = {"address": "orders.mended"}
DEAD = {"reason": "gave up"}


@pytest.fixture(autouse=True)
def orders(db: None) -> None:
    """Let `orders.#` deliver."""
    make_orders_destination()


def asked(ids: list[int], action: OperationAction, params: dict[str, Any], **more: Any) -> OperationDetail:
    """Begin an operation and return it."""
    by = {"principal": OLGA, "reason": "the parser is mended"} | more
    return get_operation(begin(freeze(ids=ids, principal=ADA), action, params=params, **by), principal=ADA)


def sign(operation: OperationDetail, by: Principal = RITA) -> None:
    """Consent to the operation."""
    sign_off(operation.id, SignOffDecision.CONSENT, selection_hash=operation.hash, reason="checked", principal=by)


def held(message: int) -> bytes:
    return bytes(Body.objects.get(id=message).payload)


def test_a_redirect_counts_where_it_goes_to_and_the_reviewer_has_to_see_that() -> None:
    save_sign_off_rule("orders.mended", None, above=1, principal=ADA)
    messages = [take_dead(), take_dead()]
    selection = get_selection(freeze(ids=messages, principal=OLGA), principal=OLGA)
    assert not preview(selection, REDIRECT, principal=OLGA, params={"address": "orders.us"}).needs_sign_off
    assert preview(selection, REDIRECT, principal=OLGA, params=MENDED).needs_sign_off
    assert asked([take_dead()], REDIRECT, MENDED).state == "running"
    operation = asked(messages[:1], REDIRECT, MENDED)
    assert operation.sign_off is not None
    assert (operation.sign_off["count"], operation.sign_off["earlier"]) == (1, 1)
    with pytest.raises(NotAllowed):
        sign(operation, principal("ruth", Role.REVIEWER, ["orders.eu"]))
    sign(operation, principal("rosa", Role.REVIEWER, ["orders.eu", "orders.mended"]))
    row = Message.objects.get(id=messages[0])
    assert (row.state, row.address.name) == ("TBDL", "orders.mended")


def test_no_address_is_made_before_the_sign_off() -> None:
    save_sign_off_rule("#", None, above=0, principal=ADA)
    message = take_dead()
    decided = decide_on([message], REDIRECT, params=MENDED, reason="r", principal=OLGA, is_one=True)
    assert decided.awaits
    assert not Address.objects.filter(name="orders.mended").exists()
    sign(get_operation(decided.awaits, principal=ADA))
    assert Message.objects.get(id=message).address.name == "orders.mended"


def test_a_target_out_of_scope_is_refused_before_anything_waits() -> None:
    save_sign_off_rule("#", None, above=0, principal=ADA)
    with pytest.raises(OutOfScope):
        asked([take_dead()], REDIRECT, MENDED, principal=principal("otto", Role.OPERATOR, ["orders.eu"]))
    assert not Operation.objects.exists()


def test_a_change_waits_with_its_payload_and_is_carried_out_as_it_was_asked_for() -> None:
    save_sign_off_rule("#", "patch", above=0, principal=ADA)
    message = take("orders.eu", "one", dead_letter=DEAD)
    waiting = asked([message], PATCH, {"payload": "two"})
    assert (waiting.state, held(message)) == ("waiting_for_sign_off", b"one")
    assert waiting.params == {"payload": "two", "payload_bytes": 3}
    assert list_operations(principal=RITA).results[0].params == {"payload_bytes": 3}
    blind = replace(RITA, name="ben", permissions=RITA.permissions - {Permission.READ_PAYLOAD})
    assert get_operation(waiting.id, principal=blind).params == {}
    with pytest.raises(NotAllowed):
        sign(waiting, blind)
    sign(waiting)
    assert (Message.objects.get(id=message).state, held(message)) == ("TBDL", b"two")
    assert get_operation(waiting.id, principal=ADA).params == {"payload_bytes": 3}


def test_breaking_the_glass_keeps_what_it_is_told() -> None:
    save_sign_off_rule("#", None, above=0, principal=ADA)
    message = take("orders.eu", "one", dead_letter=DEAD)
    operation = asked([message], PATCH, {"payload": "two"}, principal=ADA, terms=OperationTerms(break_glass=True))
    assert operation.broke_glass_at is not None
    assert held(message) == b"two"


def test_the_reviewer_sees_the_diff_and_who_edits_is_led_to_what_waits(
    operator_browser: Client, page_settings: None
) -> None:
    save_sign_off_rule("#", None, above=0, principal=SYSTEM)
    message = take("orders.eu", "one\ntwo", dead_letter=DEAD)
    sent = {"payload": "one\nthree", "begin": "1", "attempt": "0", "reason": "typo"}
    page = html_of(operator_browser.post(f"/messages/{message}/edit/", sent, follow=True))
    assert "Nothing is done yet: another person has to sign off." in page
    assert "Waiting for a sign-off" in page
    operation = Operation.objects.get()
    reviewer = Client()
    reviewer.force_login(make_user("rita", Role.REVIEWER), "allauth.account.auth_backends.AuthenticationBackend")
    shown = html_of(reviewer.get(f"/operations/{operation.id}/"))
    for text in (">-two</span>", ">+three</span>", "1 of 1 will be", "Sign off</button>"):
        assert text in shown, text
    hash_ = operation.selection.ids_hash
    reviewer.post(f"/sign-offs/{operation.id}/", {"hash": hash_, "decision": "consent", "reason": "seen"})
    assert held(message) == b"one\nthree"


def test_a_redirect_of_a_selection_says_that_it_needs_a_sign_off_and_where_it_goes(operator_browser: Client) -> None:
    save_sign_off_rule("#", None, above=0, principal=SYSTEM)
    page = f"/operations/selections/{freeze(ids=[take_dead()], principal=SYSTEM)}/?action=redirect"
    shown = html_of(operator_browser.post(page, MENDED))
    assert "Another person has to sign off" in shown
    assert "Begin without a sign-off" not in shown
    waiting = html_of(operator_browser.post(page, {**MENDED, "reason": "r", "begin": "1"}, follow=True))
    assert "Waiting for a sign-off" in waiting
    assert "orders.mended" in waiting


def test_an_administrator_may_begin_a_redirect_without(browser_of: Callable[[str], Client]) -> None:
    admin_browser = browser_of("admin")
    page = f"/operations/selections/{freeze(ids=[take_dead()], principal=SYSTEM)}/?action=redirect"
    assert "Begin without a sign-off" not in html_of(admin_browser.post(page, MENDED))
    save_sign_off_rule("#", None, above=0, principal=SYSTEM)
    assert "Begin without a sign-off" in html_of(admin_browser.post(page, MENDED))
    admin_browser.post(page, {**MENDED, "reason": "r", "begin": "1", "break_glass": "on"})
    operation = Operation.objects.get()
    assert operation.broke_glass_at is not None
    assert operation.params == MENDED | {"waive": []}
