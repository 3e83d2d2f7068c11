"""Sign-offs over the API: 202 and waiting, then another person's decision, bound to the hash."""

import pytest

from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.store.models.access import Access, Audit
from poisonadmin.store.models.message import Message
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, make_user, take_dead
from tests.fixtures.delivery import make_orders_destination

pytestmark = pytest.mark.django_db
ALL = {"selection": {"filter": {"state": "NDLV"}}, "action": "approve", "reason": "the parser is mended"}


@pytest.fixture(autouse=True)
def orders(db: None) -> None:
    """Let `orders.#` deliver, up to one message without a sign-off."""
    make_orders_destination()
    save_sign_off_rule("orders.#", None, above=1, principal=SYSTEM)
    for _ in range(2):
        take_dead()


def caller(name: str, role: Role, scopes: list[Permission] | None = None) -> Caller:
    """Return a caller with a new user."""
    return Caller(create_token(make_user(name, role, []), "t", scopes=list(scopes or Permission), by="test").text)


@pytest.fixture
def reviewer(db: None) -> Caller:
    """Return a reviewer."""
    return caller("rita", Role.REVIEWER)


def test_an_operation_waits_and_another_person_begins_it(operator: Caller, reviewer: Caller) -> None:
    answer = operator.post("operations/", ALL)
    operation = answer.json()
    assert (answer.status_code, operation["state"]) == (202, "waiting_for_sign_off")
    assert sum(operation["ledger"].values()) == operation["ledger"]["unanswered"] == 2
    assert operation["sign_off"] == {"match": "orders.#", "action": None, "above": 1, "count": 2, "earlier": 0}
    path = f"operations/{operation['id']}/"
    assert [one["id"] for one in reviewer.get("operations/?state=waiting_for_sign_off").json()["results"]] == [
        operation["id"]
    ]
    consent = {"reason": "checked with the shop", "hash": operation["hash"]}
    assert operator.post(f"{path}sign-offs/", consent).json()["code"] == "not_allowed"
    wrong = reviewer.post(f"{path}sign-offs/", consent | {"hash": "0" * 64})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "hash_mismatch")
    assert reviewer.post(f"{path}sign-offs/", {"hash": operation["hash"]}).status_code == 400
    found = reviewer.post(f"{path}sign-offs/", consent).json()
    assert (found["state"], found["requested_by"], found["sign_off_by"]) == (
        "running",
        "operator via test",
        "rita via t",
    )
    assert (found["reason"], found["sign_off_reason"]) == ("the parser is mended", "checked with the shop")
    again = reviewer.post(f"{path}sign-offs/", consent)
    assert (again.status_code, again.json()["code"]) == (409, "operation_state_conflict")
    assert set(Message.objects.values_list("state", flat=True)) == {"TBDL"}


def test_a_refusal_cancels(operator: Caller, reviewer: Caller) -> None:
    operation = operator.post("operations/", ALL).json()
    refusal = {"reason": "not at night", "hash": operation["hash"], "decision": "refuse"}
    found = reviewer.post(f"operations/{operation['id']}/sign-offs/", refusal).json()
    assert (found["state"], found["ledger"]["cancelled"], found["sign_off_decision"]) == ("cancelled", 2, "refuse")


def test_a_reviewer_s_other_token_is_the_same_person(reviewer: Caller) -> None:
    user = Access.objects.get(user__username="rita").user
    other = Caller(create_token(user, "other", scopes=list(Permission), by="test").text)
    operation = reviewer.post("operations/", ALL).json()
    consent = {"reason": "r", "hash": operation["hash"]}
    answer = other.post(f"operations/{operation['id']}/sign-offs/", consent)
    assert (answer.status_code, answer.json()["code"]) == (403, "another_person_needed")


def test_a_role_that_is_taken_away_signs_nothing_off(operator: Caller, reviewer: Caller) -> None:
    operation = operator.post("operations/", ALL).json()
    consent = {"reason": "r", "hash": operation["hash"]}
    path = f"operations/{operation['id']}/sign-offs/"
    Access.objects.filter(user__username="rita").update(role=Role.OPERATOR)
    assert reviewer.post(path, consent).status_code == 403
    Access.objects.filter(user__username="rita").update(role=Role.REVIEWER, address_patterns=["elsewhere.#"])
    assert reviewer.post(path, consent).status_code == 404
    Access.objects.filter(user__username="rita").delete()
    assert reviewer.post(path, consent).status_code == 401
    assert set(Message.objects.values_list("state", flat=True)) == {"NDLV"}


def test_the_preview_says_needs_sign_off(operator: Caller) -> None:
    selection = operator.post("selections/", {"filter": {"state": "NDLV"}}).json()
    shown = operator.get(f"selections/{selection['id']}/preview/?action=fail").json()
    assert shown["needs_sign_off"] is True
    assert shown["sign_off"]["count"] == 2
    save_sign_off_rule("orders.#", None, above=2, principal=SYSTEM)
    shown = operator.get(f"selections/{selection['id']}/preview/?action=fail").json()
    assert (shown["needs_sign_off"], shown["sign_off"]) == (False, None)


def test_a_single_decision_waits_as_an_operation(operator: Caller, reviewer: Caller) -> None:
    save_sign_off_rule("orders.#", "fail", above=0, principal=SYSTEM)
    message = Message.objects.earliest("id").id
    answer = operator.post(f"messages/{message}/fail/", {"reason": "r"})
    assert (answer.status_code, answer.json()["state"]) == (202, "NDLV")
    operation = operator.get(answer["Location"].partition("/api/v1/")[2]).json()
    assert (operation["state"], operation["count"]) == ("waiting_for_sign_off", 1)
    consent = {"reason": "r", "hash": operation["hash"]}
    assert reviewer.post(f"operations/{operation['id']}/sign-offs/", consent).json()["state"] == "completed"
    assert Message.objects.get(id=message).state == "FAIL"


def test_only_an_administrator_s_token_with_the_scope_breaks_the_glass(operator: Caller, admin: Caller) -> None:
    urgent = ALL | {"break_glass": True, "reason": "the shop is down"}
    narrow = caller("ada", Role.ADMIN, [Permission.READ, Permission.DECIDE, Permission.CONFIGURE])
    assert operator.post("operations/", urgent).status_code == narrow.post("operations/", urgent).status_code == 403
    operation = admin.post("operations/", urgent).json()
    assert (operation["state"], operation["sign_off"]["above"]) == ("running", 1)
    assert operation["broke_glass_at"]
    listed = operator.get("operations/?broke_glass=true").json()["results"]
    assert [one["id"] for one in listed] == [operation["id"]]
    assert Audit.objects.get(action="operation.broke_glass").note == "the shop is down"


def test_rules_are_kept_by_administrators(admin: Caller) -> None:
    made = admin.post("sign-off-rules/", {"match": "invoices.*", "action": "fail", "above": 500})
    rule = made.json()
    path = f"sign-off-rules/{rule['id']}/"
    assert (made.status_code, rule["version"]) == (201, 1)
    taken = admin.post("sign-off-rules/", {"match": "invoices.*", "action": "fail", "above": 5})
    assert (taken.status_code, taken.json()["code"]) == (409, "already_exists")
    assert admin.ask("PUT", path, {"above": 50}, If_Match=made["ETag"]).json()["above"] == 50
    assert admin.ask("PUT", path, {"above": 5}, If_Match=made["ETag"]).status_code == 412
    for wrong in ({"match": "a..b", "above": 1}, {"match": "a", "above": -1}, {"match": "a"}):
        assert admin.post("sign-off-rules/", wrong).status_code == 400
    assert admin.ask("DELETE", path).status_code == 204
    assert [one["match"] for one in admin.get("sign-off-rules/").json()["results"]] == ["orders.#"]
    actions = Audit.objects.filter(object_id="invoices.* fail").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["sign_off_rule.saved", "sign_off_rule.saved", "sign_off_rule.deleted"]


def test_a_limited_administrator_keeps_the_rules_of_his_addresses(admin: Caller) -> None:
    Access.objects.filter(user__username="admin").update(address_patterns=["invoices.#"])
    assert admin.get("sign-off-rules/").json()["results"] == []
    assert admin.post("sign-off-rules/", {"match": "#", "above": 1}).status_code == 403
    assert admin.post("sign-off-rules/", {"match": "invoices.eu", "above": 1}).status_code == 201
