"""Approve, FAIL and the others through the pages: what is asked, what is done, what is left alone and said so."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Message
from tests.fixtures import decisions
from tests.fixtures.api import take_dead
from tests.fixtures.pages import dead_letter, html_of, waiting

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_destination")]

HTMX = {"HX-Request": "true"}


def ask(client: Client, action: str, *ids: int, **fields: str):  # type: ignore[no-untyped-def]
    return client.post(reverse("messages-ask", args=[action]), {"id": ids, **fields})


def carry_out(client: Client, action: str, *ids: int, **fields: str):  # type: ignore[no-untyped-def]
    return client.post(reverse("messages-decide", args=[action]), {"id": ids, "reason": "because", **fields})


def state(message: Message) -> str:
    return Message.objects.get(id=message.id).state


def test_asking_changes_nothing_and_says_exactly_how_many(operator_browser: Client) -> None:
    first, second, other = dead_letter("orders.eu"), dead_letter("orders.us"), waiting("orders.eu")
    text = html_of(ask(operator_browser, "approve", first.id, second.id, other.id))
    assert "Approve 2 messages?" in text
    assert "1 will be left alone" in text
    assert "orders.eu" in text
    assert "orders.us" in text
    assert [state(first), state(second)] == ["NDLV", "NDLV"]


@pytest.mark.parametrize(("action", "is_said"), [("approve", True), ("return", True), ("fail", False)])
def test_where_a_moved_message_goes_back_to_is_said(operator_browser: Client, action: str, is_said: bool) -> None:
    moved = take_dead("parked.orders", original_address="orders.eu")
    text = " ".join(html_of(ask(operator_browser, action, moved)).split())
    assert ("goes back to orders.eu" in text) is is_said


def test_ticked_messages_are_approved_with_the_reason_and_the_others_left_alone(operator_browser: Client) -> None:
    first, second, other = dead_letter(), dead_letter(), waiting()
    answer = operator_browser.post(
        reverse("messages-decide", args=["approve"]),
        {"id": [first.id, second.id, other.id], "reason": "the parser is repaired", "back": "/triage/?state=NDLV"},
        follow=True,
    )
    assert answer.redirect_chain == [("/triage/?state=NDLV", 302)]
    assert [state(first), state(second), state(other)] == ["TBDL", "TBDL", "TBDL"]
    text = html_of(answer)
    assert "2 messages approved." in text
    assert f"#{other.id}; it is Waiting (TBDL)" in text
    rows = History.objects.filter(event="approved").values_list("actor", "note")
    assert list(rows) == [("operator", "the parser is repaired")] * 2
    assert Audit.objects.filter(action="operation.begun", note="the parser is repaired").count() == 1


def test_without_a_reason_nothing_is_decided(operator_browser: Client) -> None:
    message = dead_letter()
    answer = carry_out(operator_browser, "fail", message.id, reason="  ")
    assert answer.status_code == 422
    assert "Say why" in html_of(answer)
    assert state(message) == "NDLV"


def test_a_message_marked_fail_can_be_restored(operator_browser: Client) -> None:
    message = dead_letter()
    carry_out(operator_browser, "fail", message.id, origin="message")
    assert state(message) == "FAIL"
    page = html_of(operator_browser.get(reverse("messages-one", args=[message.id])))
    assert 'data-decision="restore"' in page
    assert 'data-decision="approve"' not in page
    carry_out(operator_browser, "restore", message.id, origin="message")
    assert state(message) == "NDLV"


@pytest.mark.parametrize(("action", "after"), [("deliver_now", "TBDL"), ("postpone", "TBDL"), ("quarantine", "NDLV")])
def test_a_waiting_message_is_made_due_postponed_or_quarantined(
    operator_browser: Client, action: str, after: str
) -> None:
    message = waiting()
    carry_out(operator_browser, action, message.id, origin="message", delay_seconds="3600")
    message.refresh_from_db()
    assert message.state == after
    if action == "postpone":
        assert message.due_at is not None
        assert 3500 < (message.due_at - timezone.now()).total_seconds() <= 3600


@pytest.mark.parametrize("seconds", ["-1", "316224001", "999999999999999999", "soon"])
def test_a_time_that_nobody_may_wait_is_refused(operator_browser: Client, seconds: str) -> None:
    message = waiting()
    answer = carry_out(operator_browser, "postpone", message.id, origin="message", delay_seconds=seconds)
    assert answer.status_code == 400
    assert Message.objects.get(id=message.id).due_at == message.due_at


def test_a_message_that_was_moved_is_returned_to_its_original_address(operator_browser: Client) -> None:
    message = dead_letter("parking", dead_letter={"original_address": "orders.eu"})
    page = html_of(operator_browser.get(reverse("messages-one", args=[message.id])))
    assert 'data-decision="return"' in page
    carry_out(operator_browser, "return", message.id, origin="message")
    message.refresh_from_db()
    assert (message.state, message.address.name) == ("TBDL", "orders.eu")


def test_a_decision_from_a_stale_page_is_refused_and_says_what_did_not_happen(operator_browser: Client) -> None:
    message = dead_letter()
    seen = {"origin": "message", "expected_state": "NDLV", "expected_attempt": str(message.attempt_number)}
    decisions.mark_fail([message.id], principal=SYSTEM, reason="somebody was quicker")
    decisions.restore([message.id], principal=SYSTEM, reason="and again")
    Message.objects.filter(id=message.id).update(attempt_number=message.attempt_number + 1)
    answer = carry_out(operator_browser, "fail", message.id, **seen)
    assert answer.status_code == 412
    text = html_of(answer)
    assert "It changed since your page was made" in text
    assert "nothing was changed" in text
    assert "precondition_failed" in text
    assert state(message) == "NDLV"


def test_a_decision_that_the_state_does_not_allow_is_a_conflict(operator_browser: Client) -> None:
    message = waiting()
    answer = carry_out(operator_browser, "approve", message.id, origin="message")
    assert answer.status_code == 409
    assert "transition_not_allowed" in html_of(answer)


def test_approving_on_an_address_that_delivers_nowhere_says_so(operator_browser: Client) -> None:
    message = dead_letter("parking")
    answer = carry_out(operator_browser, "approve", message.id, origin="message")
    assert answer.status_code == 409
    assert "no_destination" in html_of(answer)
    answer = operator_browser.post(
        reverse("messages-decide", args=["approve"]), {"id": [message.id], "reason": "r"}, follow=True
    )
    text = html_of(answer)
    assert "its address has no destination" in text
    assert state(message) == "NDLV"


def test_an_htmx_decision_answers_with_the_rows_as_they_are_now(operator_browser: Client) -> None:
    message = dead_letter()
    answer = operator_browser.post(
        reverse("messages-decide", args=["fail"]), {"id": [message.id], "reason": "r"}, headers=HTMX
    )
    text = html_of(answer)
    assert f'id="m-{message.id}" data-row class="changed" hx-swap-oob="true"' in text
    assert "Given up <small>FAIL</small>" in text
    assert " marked FAIL." in text
    assert "decided" in answer.headers["HX-Trigger-After-Settle"]


def test_an_htmx_request_of_a_session_that_ended_is_sent_to_the_login_as_a_whole_page(
    browser_of: Callable[[str], Client],
) -> None:
    answer = browser_of("anonymous").get(
        "/", headers=HTMX | {"HX-Current-URL": "http://testserver/messages/?state=NDLV"}
    )
    assert answer.headers["HX-Redirect"] == "/accounts/login/?next=/messages/%3Fstate%3DNDLV"


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_a_decision_leads_back_to_our_pages_only(operator_browser: Client, back: str) -> None:
    assert carry_out(operator_browser, "fail", dead_letter().id, back=back).headers["Location"] == "/triage/"


@pytest.mark.parametrize("ids", [[], ["x"], ["-1"], ["9" * 30], [str(n) for n in range(1, 502)]])
def test_ids_that_no_page_sends_are_refused(operator_browser: Client, ids: list[str]) -> None:
    answer = operator_browser.post(reverse("messages-decide", args=["fail"]), {"id": ids, "reason": "r"})
    assert answer.status_code == 400


def test_an_unknown_action_is_not_found(operator_browser: Client) -> None:
    assert ask(operator_browser, "explode", 1).status_code == 404


def test_a_form_without_its_token_changes_nothing(operator_browser: Client) -> None:
    message = dead_letter()
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator_browser.cookies
    answer = strict.post(reverse("messages-decide", args=["fail"]), {"id": [message.id], "reason": "r"})
    assert answer.status_code == 403
    assert "too old" in html_of(answer)
    assert state(message) == "NDLV"


def test_pausing_an_address_asks_for_no_reason_and_shows_who(operator_browser: Client) -> None:
    waiting("orders.eu")
    operator_browser.post(reverse("addresses-pause"), {"name": "orders.eu"})
    text = html_of(operator_browser.get(reverse("addresses-one"), {"name": "orders.eu"}))
    assert "Paused" in text
    assert "by operator" in text
    assert operator_browser.post(reverse("addresses-pause"), {"name": "orders.eu"}).status_code == 409
    assert operator_browser.post(reverse("addresses-resume"), {"name": "orders.eu"}).status_code == 422
    operator_browser.post(reverse("addresses-resume"), {"name": "orders.eu", "reason": "done"})
    assert "Paused" not in html_of(operator_browser.get(reverse("addresses-one"), {"name": "orders.eu"}))
