"""Editing a message on its page: a diff before one confirms, and its versions after."""

import html
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.rules.commands import create_rule, enable_rule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.message import Body, Message
from tests.fixtures.api import take
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db
DEAD = {"reason": "gave up", "exception_class": "TimeoutError"}


@pytest.fixture(autouse=True)
def orders(db: None) -> None:
    """Let `orders.#` deliver."""
    make_orders_destination()


def take_dead(payload: object = "one\ntwo", **fields: object) -> int:
    return take("orders.eu", payload, dead_letter=DEAD, **fields)


def edited(browser: Client, message: int, payload: str, **more: str) -> HttpResponse:
    return browser.post(f"/messages/{message}/edit/", {"payload": payload, **more})


def held(message: int) -> bytes:
    return bytes(Body.objects.get(id=message).payload)


def test_a_message_is_edited_looked_at_and_delivered(operator_browser: Client) -> None:
    message = take_dead(headers={"X-Kind": "push"})
    assert f'href="/messages/{message}/edit/"' in html_of(operator_browser.get(f"/messages/{message}/"))
    form = html_of(operator_browser.get(f"/messages/{message}/edit/"))
    assert "two</textarea>" in form
    assert "X-Kind: push" in form
    shown = html_of(edited(operator_browser, message, "one\r\nthree", headers_set="X-Kind: pull"))
    for line in ("-two", "+three", "-X-Kind: push", "+X-Kind: pull"):
        assert f">{line}</span>" in shown
    assert held(message) == b"one\ntwo"
    again = {"headers_set": "X-Kind: pull", "begin": "1", "attempt": "0"}
    assert "Say why" in html_of(edited(operator_browser, message, "one\r\nthree", **again))
    answer = edited(operator_browser, message, "one\r\nthree", reason="typo", **again)
    page = html_of(operator_browser.get(answer["Location"]))
    assert held(message) == b"one\nthree"
    assert Message.objects.get(id=message).state == "TBDL"
    assert f'href="/messages/{message}/versions/2/"' in page
    assert "as it came in" in page
    assert "+three" in html_of(operator_browser.get(f"/messages/{message}/versions/2/"))
    assert operator_browser.get(f"/messages/{message}/versions/1/payload/").content == b"one\ntwo"
    assert operator_browser.get(f"/messages/{message}/versions/1/").status_code == 404
    late = operator_browser.get(f"/messages/{message}/edit/", follow=True)
    assert "cannot be edited" in html_of(late)


def test_what_the_textarea_was_sent_comes_back_byte_for_byte(operator_browser: Client) -> None:
    """Line ends as they were, blank lines and spaces at both ends too."""
    for payload in ("\n\n a \n", "a\r\nb\r\n"):
        message = take_dead(payload)
        form = operator_browser.get(f"/messages/{message}/edit/").content.decode()
        found = re.search(r'<textarea name="payload"[^>]*>\n(.*?)</textarea>', form, re.DOTALL)
        assert found
        typed = html.unescape(found[1]).replace("\r\n", "\n").replace("\n", "\r\n")
        assert "Nothing is changed yet" in html_of(edited(operator_browser, message, typed))


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ({"headers_set": "PoisonAdmin-Attempt: 7"}, "cannot be changed"),
        ({"headers_set": "nonsense"}, "is not a header"),
        ({}, "Nothing is changed yet"),
    ],
)
def test_what_is_wrong_is_said(sent: dict[str, str], error: str, operator_browser: Client) -> None:
    message = take_dead()
    answer = edited(operator_browser, message, "one\r\ntwo", begin="1", attempt="0", reason="r", **sent)
    assert answer.status_code == 422
    assert error in html_of(answer)
    assert Message.objects.get(id=message).state == "NDLV"


def test_one_that_moved_on_meanwhile_is_left_alone(operator_browser: Client) -> None:
    message = take_dead()
    Message.objects.filter(id=message).update(attempt_number=1)
    answer = edited(operator_browser, message, "changed", begin="1", attempt="0", reason="r")
    assert "changed since" in html_of(answer)
    assert held(message) == b"one\ntwo"


def test_json_that_becomes_none_and_a_rule_that_refuses_it_are_pointed_out(operator_browser: Client) -> None:
    message = take_dead({"currency": "EUR"})
    rule = create_rule(
        "before",
        RuleFields(
            name="only euros",
            match={"address": "orders.#", "violates": {"properties": {"currency": {"const": "EUR"}}}},
            action={"do": "reject"},
        ),
        principal=SYSTEM,
    )
    enable_rule(rule.id, principal=SYSTEM, reason="r", override=True)
    assert "it is not JSON any more" in html_of(edited(operator_browser, message, '{"currency": "EUR"'))
    shown = html_of(edited(operator_browser, message, '{"currency": "USD"}'))
    assert "rule only euros: reject" in shown
    assert "rule only euros" not in html_of(edited(operator_browser, message, '{"currency": "EUR", "n": 1}'))


def test_of_bytes_only_the_headers_are_offered(operator_browser: Client) -> None:
    message = take("orders.eu", None, payload_base64="/w==", dead_letter=DEAD)
    page = html_of(operator_browser.get(f"/messages/{message}/edit/"))
    assert "only its headers can be changed here" in page
    assert '<textarea name="payload"' not in page
    sent = {"headers_set": "X-A: 1", "begin": "1", "attempt": "0", "reason": "r"}
    assert operator_browser.post(f"/messages/{message}/edit/", sent).status_code == 302
    assert held(message) == b"\xff"


def test_nothing_in_a_payload_becomes_markup(operator_browser: Client) -> None:
    message = take_dead("<script>alert(1)</script>")
    page = edited(operator_browser, message, "</textarea><img src=x onerror=alert(2)>").content.decode()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    decide_on(
        [message],
        OperationAction.PATCH,
        params={"payload": "</pre><b>x"},
        reason="r",
        principal=SYSTEM,
        is_one=True,
    )
    assert "<b>x" not in operator_browser.get(f"/messages/{message}/versions/2/").content.decode()


def test_a_set_is_patched_after_its_samples_were_seen(operator_browser: Client) -> None:
    ids = [take_dead({"currency": "EURO"}), take_dead({"id": 1})]
    page = f"/operations/selections/{freeze(ids=ids, principal=SYSTEM)}/?action=patch"
    patch = {"json_patch": '[{"op": "replace", "path": "/currency", "value": "EUR"}]'}
    assert "JSON Patch" in html_of(operator_browser.get(page))
    assert "Is required" in html_of(operator_browser.post(page, {"json_patch": ""}))
    assert "at character" in html_of(operator_browser.post(page, {"json_patch": "["}))
    shown = html_of(operator_browser.post(page, patch))
    assert "1 of 2 will be patched" in shown
    assert "The patch does not apply" in shown
    assert '+ "currency": "EUR"' in html.unescape(shown)
    begun = operator_browser.post(page, {**patch, "begin": "1", "reason": "r"})
    operation = html_of(operator_browser.get(begun["Location"]))
    assert "/currency" in operation
    assert Message.objects.filter(state="TBDL").count() == 1


def test_an_operation_does_not_repeat_an_edited_payload(operator_browser: Client) -> None:
    message = take_dead()
    operation = begin(
        freeze(ids=[message], principal=SYSTEM),
        OperationAction.PATCH,
        params={"payload": "planted"},
        reason="r",
        principal=SYSTEM,
    )
    page = html_of(operator_browser.get(f"/operations/{operation}/"))
    assert "planted" not in page
    assert "Payload in bytes" in page
