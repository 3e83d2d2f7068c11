"""Decisions through the API: what they do, what they leave behind, and If-Match."""

import pytest

from poisonadmin.store.models.access import Audit
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, take, take_dead

WHY = {"reason": "the endpoint is back"}


def test_an_approved_message_is_due_at_once(admin: Caller, orders_destination: None) -> None:
    message_id = take_dead()
    found = admin.post(f"messages/{message_id}/approve/", WHY).json()
    assert (found["state"], found["reason"], found["failure_count"]) == ("TBDL", None, 0)
    newest = admin.get(f"messages/{message_id}/history/").json()["results"][0]
    assert (newest["event"], newest["note"], newest["actor"]) == ("approved", WHY["reason"], "admin via test")
    audit = admin.get(f"audit/?object_type=message&object_id={message_id}").json()["results"]
    assert [(entry["action"], entry["note"]) for entry in audit] == [("message.approved", WHY["reason"])]


def test_a_failed_message_can_be_restored(admin: Caller) -> None:
    message_id = take_dead()
    assert admin.post(f"messages/{message_id}/fail/", WHY).json()["reason"] == "failed_by_admin"
    assert admin.post(f"messages/{message_id}/restore/", WHY).json()["state"] == "NDLV"


def test_a_postponed_message_waits(admin: Caller, orders_destination: None) -> None:
    found = admin.post(f"messages/{take()}/postpone/", {**WHY, "until": "2040-01-01T00:00:00+01:00"}).json()
    assert found["due_at"] == "2039-12-31T23:00:00Z"


def test_a_decision_holds_for_what_was_read_only(admin: Caller, orders_destination: None) -> None:
    message_id = take_dead()
    etag = admin.get(f"messages/{message_id}/")["ETag"]
    assert etag == '"NDLV-0-0"'
    stale = admin.post(f"messages/{message_id}/approve/", WHY, If_Match='"NDLV-7-0"')
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert admin.post(f"messages/{message_id}/approve/", WHY, If_Match=etag).status_code == 200
    assert admin.post(f"messages/{message_id}/approve/", WHY, If_Match=etag).status_code == 412


@pytest.mark.parametrize("etag", ['"other"', "NDLV-0-0", 'W/"NDLV-0-0"', '"NDLV-0-0", "TBDL-0-0"'])
def test_an_etag_of_something_else_never_matches(etag: str, admin: Caller, orders_destination: None) -> None:
    assert admin.post(f"messages/{take_dead()}/approve/", WHY, If_Match=etag).status_code == 412


def test_any_version_will_do_for_a_star(admin: Caller, orders_destination: None) -> None:
    assert admin.post(f"messages/{take_dead()}/approve/", WHY, If_Match="*").status_code == 200


def test_a_paused_address_says_who_and_why(admin: Caller, orders_destination: None) -> None:
    take()
    found = admin.post("addresses/orders.eu/pause/", WHY).json()
    assert (found["status"], found["status_by"], found["status_note"]) == ("PAUSED", "admin via test", WHY["reason"])
    assert admin.post("addresses/orders.eu/pause/", WHY).json()["code"] == "address_status_conflict"
    assert admin.post("addresses/orders.eu/resume/", WHY).json()["status"] == "ON"
    assert admin.post("addresses/orders.eu/pause/", {}).json()["status_note"] == ""
    assert Audit.objects.filter(object_id="orders.eu").count() == 3


def test_a_token_that_may_decide_but_not_read_still_sees_what_it_did(admin: Caller, orders_destination: None) -> None:
    from django.contrib.auth.models import User

    made = create_token(User.objects.get(username="admin"), "decider", scopes=["decide"], by="test")
    decider = Caller(made.text)
    message_id = take_dead()
    assert decider.post(f"messages/{message_id}/approve/", WHY).status_code == 200
    assert decider.get(f"messages/{message_id}/").status_code == 403
