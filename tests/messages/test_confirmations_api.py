"""A consumer's confirmation through the API, and which ones are missing."""

from typing import Any

import pytest
from django.test import Client

from poisonadmin.store.models.message import Confirmation, Message
from tests.fixtures.api import Caller, take


@pytest.fixture
def delivered(db: None) -> int:
    """Return a message that a broker took an hour ago and whose consumer was to answer within minutes."""
    message_id = take()
    Message.objects.filter(id=message_id).update(state="DLVD", attempt_number=1)
    past = {"delivered_at": "2026-01-01T00:00:00Z", "confirm_by": "2026-01-01T00:10:00Z"}
    Confirmation.objects.create(message_id=message_id, attempt_number=1, destination_id=1, **past)
    return message_id


def test_a_message_says_who_has_processed_it(admin: Caller, delivered: int) -> None:
    answer = admin.post(f"messages/{delivered}/confirm/", {"reason": "invoice 7", "attempt": 1})
    found = answer.json()
    assert answer.status_code == 200
    assert (found["delivered_to"], found["confirmed_by"]) == ("consumer", "admin via test")
    assert (found["confirm_by"], found["confirmation_note"]) == ("2026-01-01T00:10:00Z", "invoice 7")
    assert found["confirmed_at"] is not None


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": None, "attempt": None}])
def test_nothing_needs_to_be_said_with_it_and_saying_it_again_changes_nothing(
    body: dict[str, Any], admin: Caller, delivered: int
) -> None:
    first = admin.post(f"messages/{delivered}/confirm/", body).json()
    assert admin.post(f"messages/{delivered}/confirm/", {"reason": "once more"}).json() == first


def test_what_is_overdue_is_counted_listed_and_measured_until_it_is_confirmed(admin: Caller, delivered: int) -> None:
    def unanswered() -> tuple[int, list[str], bool]:
        listed = [one["id"] for one in admin.get("messages/?confirmation=unanswered").json()["results"]]
        metrics = Client().get("/metrics").content
        return admin.get("stats/").json()["unanswered"], listed, b"poisonadmin_unanswered 1.0" in metrics

    assert unanswered() == (1, [str(delivered)], True)
    admin.post(f"messages/{delivered}/confirm/", {})
    assert unanswered() == (0, [], False)
    assert [one["id"] for one in admin.get("messages/?confirmation=confirmed").json()["results"]] == [str(delivered)]


def test_a_word_that_does_not_exist_is_refused(admin: Caller, delivered: int) -> None:
    answer = admin.get("messages/?confirmation=perhaps")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


@pytest.mark.parametrize("body", [{"attempt": 0}, {"attempt": "x"}, {"attempt": 2**40}, {"who": "me"}, {"reason": 7}])
def test_a_body_that_says_something_else_is_refused(body: dict[str, Any], admin: Caller, delivered: int) -> None:
    assert admin.post(f"messages/{delivered}/confirm/", body).status_code == 400
    assert Confirmation.objects.get().confirmed_at is None


def test_what_is_not_delivered_says_in_which_state_it_is(admin: Caller) -> None:
    answer = admin.post(f"messages/{take()}/confirm/", {})
    assert (answer.status_code, answer.json()["code"], answer.json()["state"]) == (
        409,
        "transition_not_allowed",
        "TBDL",
    )
