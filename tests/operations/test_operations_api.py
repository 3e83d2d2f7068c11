"""Selections and operations over the API."""

import pytest

from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.search.domain.selection import ids_hash
from tests.fixtures.api import Caller, take_dead

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def orders(orders_destination: None) -> None:
    """Let `orders.#` deliver."""


def test_from_a_filter_over_the_preview_to_the_ledger(operator: Caller) -> None:
    ids = [take_dead(), take_dead("elsewhere.x")]
    frozen = operator.post("selections/", {"filter": {"state": "NDLV"}})
    selection = frozen.json()
    assert frozen.status_code == 201
    assert frozen["Location"].endswith(f"/api/v1/selections/{selection['id']}/")
    assert (selection["count"], selection["hash"], selection["arrived_since"]) == (2, ids_hash(ids), 0)
    assert [one["id"] for one in operator.get(f"selections/{selection['id']}/messages/").json()["results"]] == [
        str(one) for one in ids
    ]
    preview = operator.get(f"selections/{selection['id']}/preview/?action=approve").json()
    assert (preview["count"], preview["accepted"]) == (2, 1)
    assert preview["refused"] == [
        {"code": "no_destination", "address": "elsewhere.x", "count": 1, "detail": "elsewhere.x"}
    ]
    asked = {"selection": selection["id"], "action": "approve", "reason": "mended", "rate_per_second": 5}
    begun = operator.post("operations/", asked)
    assert begun.status_code == 202
    carry_on()
    operation = operator.get(f"operations/{begun.json()['id']}/").json()
    assert begun["Location"].endswith(f"/api/v1/operations/{operation['id']}/")
    assert (operation["state"], operation["count"], operation["done"]) == ("running", 2, 1)
    assert sum(operation["ledger"].values()) == 2
    assert operation["skipped"] == [{"code": "no_destination", "count": 1}]
    members = operator.get(f"operations/{operation['id']}/members/?outcome=skipped").json()["results"]
    assert [one["id"] for one in members] == [str(ids[1])]
    every = operator.get(f"operations/{operation['id']}/members/").json()["results"]
    assert [one["id"] for one in every] == [str(one) for one in ids]


def test_an_operation_freezes_a_filter_by_itself(operator: Caller) -> None:
    take_dead()
    asked = {"selection": {"filter": {"address": "orders.#"}}, "action": "fail", "reason": "hopeless"}
    operation = operator.post("operations/", asked).json()
    assert (operation["state"], operation["ledger"]["changed"]) == ("completed", 1)


def test_a_dry_run_answers_with_the_preview_and_does_nothing(operator: Caller) -> None:
    take_dead()
    asked = {"selection": {"filter": {"state": "NDLV"}}, "action": "fail", "reason": "hopeless", "dry_run": True}
    answer = operator.post("operations/", asked)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert operator.get("operations/").json()["results"] == []


@pytest.mark.parametrize("empty", [{"address": ""}, {"address": []}, {"state": [""]}, {"q": ""}, {"group": []}])
def test_an_empty_value_never_means_everything(operator: Caller, empty: dict[str, object]) -> None:
    take_dead()
    name = next(iter(empty))
    for path, asked in (
        ("selections/", {"filter": empty}),
        ("operations/", {"selection": {"filter": empty}, "action": "fail", "reason": "r"}),
    ):
        answer = operator.post(path, asked)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
        assert f"{name} is empty" in answer.json()["detail"]


def test_the_same_request_again_begins_nothing(operator: Caller) -> None:
    take_dead()
    asked = {"selection": {"filter": {"state": "NDLV"}}, "action": "fail", "reason": "hopeless"}
    first, again = (operator.post("operations/", asked, Idempotency_Key="one") for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert len(operator.get("operations/").json()["results"]) == 1


def test_it_is_paused_resumed_and_cancelled(operator: Caller) -> None:
    take_dead()
    operation = operator.post(
        "operations/", {"selection": {"filter": {"state": "NDLV"}}, "action": "approve", "reason": "r", "canary": True}
    ).json()
    path = f"operations/{operation['id']}/"
    assert operation["canary"] is True
    assert operator.post(f"{path}pause/", {"reason": "wait"}).json()["state"] == "paused"
    assert operator.post(f"{path}pause/", {"reason": "wait"}).json()["code"] == "operation_state_conflict"
    assert operator.post(f"{path}resume/", {}).json()["state"] == "running"
    assert operator.post(f"{path}cancel/", {"reason": "stop"}).json()["ledger"]["cancelled"] == 1
    assert operator.post(f"{path}cancel/", {}).json()["code"] == "operation_state_conflict"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"selection": "99999999"}, "not_found"),
        ({"selection": 7}, "invalid"),
        ({"selection": {"filter": {"nonsense": "x"}}}, "unknown_parameter"),
        ({"selection": {"filter": {}}, "rate_per_second": -1}, "invalid_operation"),
        ({"selection": {"filter": {}}, "action": "fail", "canary": True}, "invalid_operation"),
        ({"selection": {"filter": {}}, "action": "postpone"}, "invalid_operation"),
        ({"selection": {"filter": {}}, "until": "2040-01-01T00:00:00Z"}, "invalid_operation"),
        ({"selection": {"filter": {}}, "action": "explode"}, "invalid_choice"),
    ],
)
def test_what_is_wrong_is_named(asked: dict[str, object], code: str, operator: Caller) -> None:
    answer = operator.post("operations/", {"action": "approve", "reason": "r", **asked})
    assert answer.status_code in (400, 404)
    assert code in answer.content.decode()


def test_a_selection_takes_a_filter_or_ids(operator: Caller) -> None:
    message = take_dead()
    assert operator.post("selections/", {"ids": [str(message)]}).json()["count"] == 1
    for wrong in ({}, {"filter": {}, "ids": [str(message)]}):
        answer = operator.post("selections/", wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_selection")
