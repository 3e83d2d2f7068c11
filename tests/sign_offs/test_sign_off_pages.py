"""Sign-offs in the dashboard: asked for, reviewed with preview and hash, consented to or refused; and the rules."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation, SignOffRule
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import html_of, make_user, usable_of

pytestmark = pytest.mark.django_db
PAGE = "/sign-offs/"
NEW = "/sign-offs/rules/new/"


@pytest.fixture(autouse=True)
def orders(db: None) -> None:
    """Let `orders.#` deliver, up to one message without a sign-off."""
    make_orders_destination()
    save_sign_off_rule("orders.#", None, above=1, principal=SYSTEM)
    for _ in range(2):
        take_dead()


@pytest.fixture
def reviewer(page_settings: None) -> Client:
    """Return the browser of a reviewer."""
    client = Client()
    client.force_login(make_user("rita", Role.REVIEWER), "allauth.account.auth_backends.AuthenticationBackend")
    return client


def asked_for(browser: Client) -> Operation:
    """Ask for the approval of all; return the operation."""
    selection = freeze({"state": ["NDLV"]}, principal=SYSTEM)
    address = f"/operations/selections/{selection}/"
    page = html_of(browser.get(address))
    assert "Another person has to sign off: 2 messages, the limit at orders.# is 1." in page
    assert "Approve 2</button>" in page
    browser.post(address, {"reason": "the parser is mended"})
    return Operation.objects.get()


def test_what_waits_is_reviewed_and_signed_off(operator_browser: Client, reviewer: Client) -> None:
    operation = asked_for(operator_browser)
    address = f"/operations/{operation.id}/"
    own = html_of(operator_browser.get(address))
    assert "Waiting for a sign-off" in own
    assert "waiting for sign off</span>" in html_of(operator_browser.get("/"))
    assert "Cancel…" in own
    assert "Pause…" not in own
    assert "Sign off</button>" not in own
    assert "waiting for your sign-off" not in html_of(operator_browser.get(PAGE))
    listed = html_of(reviewer.get(PAGE))
    assert "waiting for your sign-off" in listed
    assert f"Review: Approve #{operation.id}" in listed
    page = html_of(reviewer.get(address))
    assert "2 of 2 will be approved" in page
    assert f'name="hash" value="{operation.selection.ids_hash}"' in page
    sent = {"hash": operation.selection.ids_hash, "decision": "consent"}
    decide = f"/sign-offs/{operation.id}/"
    assert "Say why" in html_of(reviewer.post(decide, sent | {"reason": " "}, follow=True))
    assert "nothing was done" in html_of(reviewer.post(decide, sent | {"reason": "r", "hash": "x"}, follow=True))
    assert Operation.objects.get().state == "waiting_for_sign_off"
    done = html_of(reviewer.post(decide, sent | {"reason": "checked with the shop"}, follow=True))
    for text in ("Running", "Signed off by", "rita", "the parser is mended", "checked with the shop"):
        assert text in done, text
    again = html_of(reviewer.post(decide, sent | {"reason": "r"}, follow=True))
    assert "it does not wait for a sign-off" in again


def test_a_refusal_is_shown_with_both_reasons(operator_browser: Client, reviewer: Client) -> None:
    operation = asked_for(operator_browser)
    sent = {"hash": operation.selection.ids_hash, "decision": "refuse", "reason": "not at night"}
    page = html_of(reviewer.post(f"/sign-offs/{operation.id}/", sent, follow=True))
    for text in ("Cancelled", "Sign-off refused by", "not at night", "the parser is mended"):
        assert text in page, text


def test_a_reviewer_who_asks_or_does_not_see_all_is_offered_no_sign_off(
    reviewer: Client, browser_of: Callable[[str], Client]
) -> None:
    operation = asked_for(reviewer)
    address = f"/operations/{operation.id}/"
    assert "Another person has to sign off what you have asked for." in html_of(reviewer.get(address))
    assert browser_of("outsider").get(address).status_code == 404
    Message.objects.update(original_address=None)
    admin = browser_of("admin")
    assert "Sign off</button>" in html_of(admin.get(address))
    Access.objects.filter(user__username="admin").update(role=Role.OPERATOR)
    assert "Sign off</button>" not in html_of(admin.get(address))
    sent = {"hash": operation.selection.ids_hash, "decision": "consent", "reason": "r"}
    assert admin.post(f"/sign-offs/{operation.id}/", sent).status_code == 403
    assert Operation.objects.get().state == "waiting_for_sign_off"


def test_ticked_rows_say_so_before_and_wait_afterwards(operator_browser: Client) -> None:
    ids = list(Message.objects.values_list("id", flat=True))
    asked = html_of(operator_browser.post("/messages/decide/fail/", {"id": ids}))
    assert "Another person has to sign off: 2 messages" in asked
    answer = operator_browser.post("/messages/decide/fail/now/", {"id": ids, "reason": "hopeless"}, follow=True)
    page = html_of(answer)
    assert answer.redirect_chain[-1][0] == f"/operations/{Operation.objects.get().id}/"
    assert "Nothing is done yet: another person has to sign off." in page
    one = operator_browser.post(
        "/messages/decide/fail/now/", {"id": ids, "reason": "hopeless"}, headers={"HX-Request": "true"}
    )
    assert one["HX-Redirect"] == f"/operations/{Operation.objects.latest('id').id}/"
    assert set(Message.objects.values_list("state", flat=True)) == {"NDLV"}


def test_only_an_administrator_is_offered_to_break_the_glass_and_everybody_sees_it(
    operator_browser: Client, reviewer: Client, browser_of: Callable[[str], Client]
) -> None:
    selection = freeze({"state": ["NDLV"]}, principal=SYSTEM)
    address = f"/operations/selections/{selection}/"
    sent = {"reason": "the shop is down", "break_glass": "on"}
    for browser in (operator_browser, reviewer):
        assert "Begin without a sign-off" not in html_of(browser.get(address))
    operator_browser.post(address, sent)
    assert Operation.objects.get().broke_glass_at is None
    admin = browser_of("admin")
    assert "Begin without a sign-off" in html_of(admin.get(address))
    page = html_of(admin.post(address, sent, follow=True))
    assert "Begun without a sign-off" in page
    assert "Begun without a sign-off" in html_of(reviewer.get(PAGE))
    assert "without sign-off" in html_of(reviewer.get("/operations/"))
    notice = "1 operation was begun without its sign-off in the last 24 hours"
    assert notice in " ".join(html_of(reviewer.get("/")).split())
    assert "without its sign-off" not in html_of(operator_browser.get("/"))
    save_sign_off_rule("orders.#", None, above=2, principal=SYSTEM)
    assert "Begin without a sign-off" not in html_of(admin.get(address))


def test_rules_are_saved_changed_and_deleted(browser_of: Callable[[str], Client]) -> None:
    admin = browser_of("admin")
    typed = {"match": "invoices.*", "action": "fail", "above": "500"}
    assert admin.post(NEW, typed).status_code == 302
    rule = SignOffRule.objects.get(match="invoices.*")
    address = f"/sign-offs/rules/{rule.id}/"
    assert 'name="above" value="500"' in html_of(admin.get(address))
    assert admin.post(address, {"version": "1", "above": "50"}).status_code == 302
    rule.refresh_from_db()
    assert (rule.match, rule.action, rule.above, rule.version) == ("invoices.*", "fail", 50, 2)
    assert admin.post(address, {"version": "1", "above": "5"}).status_code == 412
    taken = admin.post(NEW, typed)
    assert taken.status_code == 409
    assert 'id="match_error"' in taken.content.decode()
    wrong = admin.post(NEW, {"match": "a..b", "action": "", "above": "many"})
    assert wrong.status_code == 422
    for field in ("match", "above"):
        assert f'id="{field}_error"' in wrong.content.decode()
    page = usable_of(browser_of("viewer").get(PAGE))
    assert "invoices.*" in page
    assert "New rule" not in page
    admin.post(f"{address}delete/")
    assert not SignOffRule.objects.filter(match="invoices.*").exists()


def test_a_form_of_another_action_is_another_rule(browser_of: Callable[[str], Client]) -> None:
    assert browser_of("admin").post(NEW, {"match": "orders.#", "action": "fail", "above": "0"}).status_code == 302
    assert SignOffRule.objects.count() == 2
