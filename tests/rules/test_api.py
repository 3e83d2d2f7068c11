"""Rules through the API."""

import json
from typing import Any

import pytest

from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.rule import Rule
from poisonadmin.store.models.run import LongRun
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, make_user

BAD = {
    "name": "no negative amounts",
    "stage": "before",
    "match": {"address": "orders.#", "json": [{"path": "$.amount", "outside": {"min": 0}}]},
    "action": {"do": "reject"},
}


def body(answer: Any) -> dict[str, Any]:
    return dict(json.loads(answer.content))


def test_a_rule_is_written_tried_and_switched_on(admin: Caller) -> None:
    made = admin.post("rules/", BAD | {"note": "see the runbook", "ends_at": "2099-01-01T00:00:00Z"})
    assert made.status_code == 201, made.content
    rule = body(made)
    path = f"rules/{rule['id']}/"
    assert made["Location"].endswith(path)
    assert (rule["position"], rule["is_enabled"], rule["is_dry_run"], rule["hits"]) == (1, False, False, 0)
    assert rule["match"] == BAD["match"]

    refused = admin.post(f"{path}enable/", {"reason": "now"})
    assert (refused.status_code, body(refused)["code"]) == (409, "not_dry_run")

    asked = admin.post(f"{path}dry_run/")
    assert (asked.status_code, body(asked)["ended_at"]) == (202, None)
    assert body(admin.get(f"{path}dry_run/"))["id"] == body(asked)["id"]
    places = [{"address": "orders.eu", "group_id": None, "matched": 2, "samples": [7, 9]}]
    LongRun.objects.update(result={"read": 5, "matched": 2, "found": places})
    assert body(admin.get(f"{path}dry_run/"))["result"] == {
        "read": 5,
        "matched": 2,
        "found": [
            {"address": "orders.eu", "group_id": None, "group_title": None, "matched": 2, "sample_ids": ["7", "9"]}
        ],
    }
    Rule.objects.update(checked_version=1)
    assert body(admin.post(f"{path}enable/", {"reason": "it was tried"}))["is_in_force"] is True
    assert body(admin.post(f"{path}disable/", {"reason": "enough"}))["is_in_force"] is False
    assert admin.ask("DELETE", path).status_code == 204
    assert admin.get(path).status_code == 404
    assert list(Audit.objects.filter(object_type="rule").order_by("id").values_list("action", "note")) == [
        ("rule.created", None),
        ("rule.dry_run_requested", None),
        ("rule.enabled", "it was tried"),
        ("rule.disabled", "enough"),
        ("rule.deleted", None),
    ]


@pytest.mark.conformance("R15")
def test_a_rule_warns_of_what_comes_back_to_it(admin: Caller) -> None:
    admin.post("destinations/", {"name": "hooks", "kind": "http", "config": {"url": "https://hooks.example.org/in"}})
    for match, dead in (("odd", "orders.odd"), ("orders.#", "dead")):
        settings = {"dead_letter_address": dead}
        admin.post("policies/", {"match": match, "preset": "artemis", "settings": settings, "destination": "hooks"})
    does = {"action": {"do": "redirect", "address": "odd"}, "stage": "after"}
    back = body(admin.post("rules/", does | {"name": "back", "match": {"address": "orders.#"}}))
    ends = body(admin.post("rules/", does | {"name": "ends", "match": {"address": "returns.#"}}))
    assert ["dead_letter_loop" in one for one in back["warnings"]] == [True]
    assert ends["warnings"] == []
    assert body(admin.get("rules/"))["results"] == [back, ends]


@pytest.mark.django_db
def test_a_rule_on_payloads_is_for_who_may_read_them() -> None:
    made = make_user("made", Role.ADMIN, [])
    scopes = [Permission.READ, Permission.CONFIGURE]
    narrow = Caller(create_token(made, "narrow", scopes=scopes, by="test").text)
    wide = Caller(create_token(made, "wide", scopes=[*scopes, Permission.READ_PAYLOAD], by="test").text)
    plain = BAD | {"name": "plain", "match": {"address": "orders.#"}}
    rule = body(narrow.post("rules/", plain))["id"]
    for match in (BAD["match"], {"not_json": True}, {"violates": {"type": "object"}}):
        refused = narrow.post("rules/", BAD | {"match": match})
        assert (refused.status_code, body(refused)["code"]) == (403, "not_allowed"), match
        fields = {name: value for name, value in (plain | {"match": match}).items() if name != "stage"}
        assert narrow.ask("PUT", f"rules/{rule}/", fields).status_code == 403, match
    assert narrow.post(f"rules/{rule}/dry_run/").status_code == 202
    assert narrow.get(f"rules/{rule}/dry_run/").status_code == 200

    on_payloads = body(wide.post("rules/", BAD))["id"]
    assert narrow.post(f"rules/{on_payloads}/dry_run/").status_code == 403
    assert wide.post(f"rules/{on_payloads}/dry_run/").status_code == 202
    assert narrow.get(f"rules/{on_payloads}/dry_run/").status_code == 403
    assert wide.get(f"rules/{on_payloads}/dry_run/").status_code == 200
    # What the former version was on is not known any more.
    fields = {name: value for name, value in (BAD | {"match": {}}).items() if name != "stage"}
    assert wide.ask("PUT", f"rules/{on_payloads}/", fields).status_code == 200
    assert narrow.get(f"rules/{on_payloads}/dry_run/").status_code == 403


def test_a_rule_is_switched_on_untried_only_by_saying_so(admin: Caller) -> None:
    path = f"rules/{body(admin.post('rules/', BAD))['id']}/"
    assert admin.post(f"{path}enable/", {"reason": "urgent", "without_dry_run": True}).status_code == 200
    assert Audit.objects.get(action="rule.enabled").details == {"version": 1, "without_dry_run": True}


def test_a_rule_is_replaced_only_as_it_was_read(admin: Caller) -> None:
    made = admin.post("rules/", BAD)
    path = f"rules/{body(made)['id']}/"
    changed = {name: value for name, value in BAD.items() if name != "stage"} | {"action": {"do": "discard"}}
    assert admin.ask("PUT", path, changed, If_Match='"9"').status_code == 412
    done = admin.ask("PUT", path, changed, If_Match=made["ETag"])
    assert (done.status_code, done["ETag"], body(done)["action"]) == (200, '"2"', {"do": "discard"})
    assert admin.ask("PUT", path, BAD).status_code == 400, "a rule stays in its stage"


def test_rules_are_put_in_order(admin: Caller) -> None:
    ids = [body(admin.post("rules/", BAD | {"name": name}))["id"] for name in ("one", "two", "three")]
    assert body(admin.post(f"rules/{ids[2]}/move/", {"position": 1}))["position"] == 1
    admin.post("rules/", {"name": "later", "stage": "after", "action": {"do": "park"}})
    assert [row["name"] for row in body(admin.get("rules/"))["results"]] == ["three", "one", "two", "later"]
    assert [row["name"] for row in body(admin.get("rules/?stage=after"))["results"]] == ["later"]
    assert admin.post(f"rules/{ids[2]}/move/", {"position": 4}).status_code == 400


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"match": {"adress": "orders.#"}}, "match.adress"),
        ({"match": {"violates": {"$ref": "http://example.com/"}}}, "match.violates"),
        ({"action": {"do": "explode"}}, "action.do"),
        ({"action": {"do": "redirect"}}, "action.address"),
        ({"name": "a\u200bb"}, "name"),
        ({"stage": "during"}, "stage"),
        ({"ends_at": "tomorrow"}, "ends_at"),
    ],
)
def test_a_wrong_rule_is_refused_by_the_name_of_its_field(admin: Caller, fields: dict[str, Any], field: str) -> None:
    refused = admin.post("rules/", BAD | fields)
    assert refused.status_code == 400, refused.content
    assert [error["field"] for error in body(refused)["errors"]] == [field]
    assert not Rule.objects.exists()


def test_a_name_is_taken_once(admin: Caller) -> None:
    admin.post("rules/", BAD)
    refused = admin.post("rules/", BAD)
    assert (refused.status_code, body(refused)["code"]) == (409, "already_exists")
