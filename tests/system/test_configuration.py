"""The configuration as one document: what is written brings another installation to the same, and nothing by halves."""

import json
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.masking.commands import save_masking_rule
from poisonadmin.masking.domain import MaskingRuleFields
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.alert import AlertRule
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.rule import PolicyRow, Rule
from poisonadmin.system.domain.configuration import KINDS
from tests.fixtures.api import Caller, create_token, make_user

TABLES = "rule, alert_rule, restart_job, saved_report, saved_view, sign_off_rule, masking_rule, source, policy"


def applied(admin: Caller, document: Any, **how: Any) -> Any:
    answer = admin.post("configuration/", {"configuration": document, **how})
    assert answer.status_code == 200, answer.content
    return answer.json()


def resolved(value: Any) -> Any:
    """Return a document whose secrets are given."""
    text = json.dumps(value).replace('{"$env": ', '"of ').replace('"of "', '"of ')
    while '"of ' in text:
        before, _, rest = text.partition('"of ')
        name, _, after = rest.partition('"}')
        text = f'{before}"the {name}"{after}'
    return json.loads(text)


@pytest.fixture
def own(one_of_each: dict[str, Any], admin: Caller) -> None:
    """Have a shared view and a shared report of the caller; those of others are not in the caller's document."""
    assert admin.post("views/", {"name": "mine", "query": "state=NDLV", "is_shared": True}).status_code == 201
    asked = {"name": "mine", "is_shared": True, "report": {"kind": "failures"}, "schedule": None}
    assert admin.post("saved-reports/", asked).status_code == 201


def test_a_document_brings_an_empty_installation_to_the_same(own: None, admin: Caller) -> None:
    document = admin.get("configuration/").json()
    assert "planted-canary" not in json.dumps(document)
    assert {kind: len(found) for kind, found in document.items()} == {
        "destinations": 1,
        "policies": 1,
        "sources": 2,
        "rules": 1,
        "masking_rules": 1,
        "sign_off_rules": 1,
        "alert_rules": 1,
        "restart_jobs": 1,
        "saved_reports": 1,
        "views": 1,
        "accounts": 2,
    }
    assert set(document) == {kind.name for kind in KINDS}
    assert applied(admin, document, prune=True) == {"changes": [], "is_applied": False}
    assert applied(admin, resolved(document), prune=True) == {"changes": [], "is_applied": False}

    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES} CASCADE")
        cursor.execute("UPDATE address SET destination_id = NULL; DELETE FROM destination")
    done = applied(admin, resolved(document))
    assert done["is_applied"]
    assert {one["change"] for one in done["changes"]} == {"create"}
    assert admin.get("configuration/").json() == document
    assert Destination.objects.get().secrets == {"Authorization": "the DESTINATIONS_SHOP_AUTHORIZATION"}
    assert Audit.objects.filter(action="configuration.applied").count() == 1
    assert Audit.objects.filter(action="destination.saved", actor=Audit.objects.latest("id").actor).exists()


def test_a_difference_names_what_somebody_has_changed_by_hand(one_of_each: dict[str, Any], admin: Caller) -> None:
    document = admin.get("configuration/").json()
    admin.ask(
        "PUT", f"policies/{one_of_each['policy']}/", {"match": "orders.#", "settings": {"max_delivery_attempts": 9}}
    )
    admin.post("destinations/shop/disable/", {"reason": "test"})
    Rule.objects.all().delete()
    found = applied(admin, document, is_check=True)
    assert not found["is_applied"]
    assert found["changes"] == [
        {"object": "destinations/shop", "change": "change", "fields": {"is_enabled": [False, True]}},
        {
            "object": "policies/orders.#",
            "change": "change",
            "fields": {"settings": [{"max_delivery_attempts": 9}, {}], "destination": [None, "shop"]},
        },
        {"object": "rules/no tests", "change": "create", "fields": {}},
    ]
    assert Rule.objects.count() == 0
    assert PolicyRow.objects.get().settings == {"max_delivery_attempts": 9}
    assert applied(admin, document)["changes"] == found["changes"]
    assert admin.get("configuration/").json() == document


def test_what_is_refused_is_named_and_nothing_is_applied(one_of_each: dict[str, Any], admin: Caller) -> None:
    document = {
        "destinations": [
            {"name": "new", "kind": "http", "config": {"url": "http://127.0.0.1:9/"}},
            {"name": "bad", "kind": "http", "config": {"url": "nonsense"}},
            {"name": "new", "kind": "http", "config": {"url": "http://127.0.0.1:9/"}},
        ],
        "policies": [{"match": "orders.#", "settings": {"no_such": 1}}, {"match": "a b"}],
        "alert_rules": "none",
    }
    answer = admin.post("configuration/", {"configuration": document})
    assert (answer.status_code, answer.json()["code"]) == (400, "configuration_refused")
    lines = answer.json()["detail"].splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "destinations/bad",
        "destinations/new",
        "policies/orders.#",
        "policies/a b",
        "alert_rules",
    ]
    assert "url" in lines[0]
    assert not Destination.objects.filter(name="new").exists()
    unknown = admin.post("configuration/", {"configuration": {"destination": []}})
    assert "destination: no kind of configuration" in unknown.json()["detail"]


def test_prune_removes_only_of_the_kinds_that_are_named(own: None, admin: Caller) -> None:
    found = applied(admin, {"views": [], "rules": []}, prune=True)
    assert [(one["change"], one["object"]) for one in found["changes"]] == [
        ("remove", "rules/no tests"),
        ("remove", "views/mine"),
    ]
    assert Destination.objects.exists()
    refused = admin.post("configuration/", {"configuration": {"destinations": []}, "prune": True})
    assert "destinations/shop: " in refused.json()["detail"]


@pytest.mark.parametrize("with_secrets", [False, True])
def test_stored_secrets_stay_unless_they_are_to_be_written(
    one_of_each: dict[str, Any], admin: Caller, with_secrets: bool
) -> None:
    document = {"destinations": resolved(admin.get("configuration/").json())["destinations"]}
    document["destinations"][0]["max_rate_per_second"] = 7
    found = applied(admin, document, secrets=with_secrets)
    assert [one["object"] for one in found["changes"]] == ["destinations/shop"]
    expected = "the DESTINATIONS_SHOP_AUTHORIZATION" if with_secrets else "Bearer planted-canary"
    assert Destination.objects.get().secrets == {"Authorization": expected}


def test_who_may_not_configure_and_who_sees_a_part_get_what_the_views_give_them(
    viewer: Caller, outsider: Caller, one_of_each: dict[str, Any], admin: Caller
) -> None:
    assert viewer.get("configuration/").status_code == 403
    document = admin.get("configuration/").json()
    assert viewer.post("configuration/", {"configuration": document}).status_code == 403


def test_a_shared_view_is_changed_and_a_private_one_of_that_name_is_shared(own: None, admin: Caller) -> None:
    document = {"views": [{"name": "mine", "query": "state=FAIL", "is_shared": True}]}
    expected = [{"object": "views/mine", "change": "change", "fields": {"query": ["state=NDLV", "state=FAIL"]}}]
    assert applied(admin, document)["changes"] == expected
    assert applied(admin, document)["changes"] == []
    admin.post("views/", {"name": "mine", "query": "state=FAIL", "is_shared": False})
    [shared] = applied(admin, document)["changes"]
    assert shared["fields"] == {"is_shared": [False, True]}


def test_what_is_stored_in_another_form_is_no_change(one_of_each: dict[str, Any], admin: Caller) -> None:
    rule, job = f"rules/{one_of_each['rule']}/", f"restart-jobs/{one_of_each['restart_job']}/"
    document = {
        "rules": [{"name": "no tests", "ends_at": "2099-01-01T01:00:00+01:00"}],
        "restart_jobs": [{"name": "weekly", "filter": {"address": "orders.#"}}],
    }
    applied(admin, document)
    versions = [admin.get(path).json()["version"] for path in (rule, job)]
    assert applied(admin, document) == {"changes": [], "is_applied": False}
    assert [admin.get(path).json()["version"] for path in (rule, job)] == versions


def test_secrets_are_given_all_or_none_and_a_new_object_needs_them(one_of_each: dict[str, Any], admin: Caller) -> None:
    Destination.objects.update(secrets={"A": "planted-canary", "B": "planted-canary"})
    partly = {"destinations": [{"name": "shop", "secrets": {"A": "new", "B": {"$env": "B"}}}]}
    refused = admin.post("configuration/", {"configuration": partly, "secrets": True})
    assert "destinations/shop: secrets.B" in refused.json()["detail"]
    unset = {"destinations": [{"name": "shop", "secrets": {"A": {"$env": "A"}, "B": {"$env": "B"}}}]}
    assert applied(admin, unset, secrets=True)["changes"] == []
    assert Destination.objects.get().secrets == {"A": "planted-canary", "B": "planted-canary"}
    new = {"name": "new", "kind": "http", "config": {"url": "http://127.0.0.1:9/"}, "secrets": {"A": {"$env": "A"}}}
    refused = admin.post("configuration/", {"configuration": {"destinations": [new]}})
    assert "destinations/new: secrets.A: the variable is not set" in refused.json()["detail"]
    settings = {"policies": [{"match": "orders.#", "settings": {"max_delivery_attempts": {"$env": "N"}}}]}
    refused = admin.post("configuration/", {"configuration": settings})
    assert "policies/orders.#: settings.max_delivery_attempts" in refused.json()["detail"]


def test_where_a_chat_alert_goes_is_a_secret(admin: Caller) -> None:
    to = "https://hooks.slack.com/services/T0/B0/{}"
    made = {"name": "chat", "kinds": ["new_group"], "channel": "slack", "to": [to.format("one")], "addresses": ["#"]}
    assert admin.post("alerts/rules/", made).status_code == 201
    document = {"alert_rules": admin.get("configuration/").json()["alert_rules"]}
    assert document["alert_rules"][0]["to"] == [{"$env": "ALERT_RULES_CHAT_TO"}]
    document["alert_rules"][0] |= {"to": [to.format("two")], "repeat_minutes": 30}
    found = applied(admin, document)["changes"]
    assert [one["fields"] for one in found] == [{"repeat_minutes": [60, 30]}]
    assert AlertRule.objects.get().secrets == [to.format("one")]
    assert applied(admin, document)["changes"] == []
    found = applied(admin, document, secrets=True)["changes"]
    assert [one["fields"] for one in found] == [{"to": ["…", "given anew"]}]
    assert AlertRule.objects.get().secrets == [to.format("two")]


def test_an_account_of_single_sign_on_is_none_of_the_document(admin: Caller) -> None:
    user = make_user("joe@example.org", Role.VIEWER, [])
    SocialAccount.objects.create(user=user, provider="oidc", uid="joe")
    assert "joe@example.org" not in str(admin.get("configuration/").json()["accounts"])


def test_prune_closes_no_last_administrator(one_of_each: dict[str, Any], admin: Caller) -> None:
    refused = admin.post("configuration/", {"configuration": {"accounts": []}, "prune": True})
    assert (refused.status_code, "accounts/admin: " in refused.json()["detail"]) == (400, True)
    assert User.objects.get(username="clerk").is_active


def test_a_switch_is_true_or_false(one_of_each: dict[str, Any], admin: Caller) -> None:
    refused = admin.post("configuration/", {"configuration": {"rules": [{"name": "no tests", "is_enabled": "false"}]}})
    assert "rules/no tests: is_enabled: must be true or false" in refused.json()["detail"]
    assert not Rule.objects.get().is_enabled


def test_who_lacks_a_right_for_a_kind_is_refused_with_its_name(one_of_each: dict[str, Any]) -> None:
    narrow = make_user("narrow", Role.ADMIN, [])
    caller = Caller(create_token(narrow, "t", scopes=[Permission.CONFIGURE, Permission.READ], by="test").text)
    answer = caller.get("configuration/")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    answer = caller.post("configuration/", {"configuration": {"saved_reports": []}})
    assert (answer.status_code, answer.json()["code"]) == (400, "configuration_refused")
    limited = make_user("limited", Role.ADMIN, ["a.#"])
    caller = Caller(create_token(limited, "t", scopes=list(Permission), by="test").text)
    rules = [{"name": n, "stage": "after", "match": {"address": "a.#"}, "action": {"do": "park"}} for n in "xy"]
    assert caller.post("configuration/", {"configuration": {"rules": rules}}).status_code == 200
    answer = caller.post("configuration/", {"configuration": {"rules": rules[::-1]}})
    assert (answer.status_code, answer.json()["code"]) == (400, "configuration_refused")


def test_rules_apply_in_the_order_of_the_document(admin: Caller) -> None:
    def rule(name: str, stage: str = "after") -> dict[str, Any]:
        return {"name": name, "stage": stage, "match": {"address": "a.#"}, "action": {"do": "park"}}

    document = {"rules": [rule("c"), rule("a"), rule("b")]}
    assert [one["change"] for one in applied(admin, document)["changes"]] == ["create"] * 3
    again = {"rules": [rule("b"), rule("c")]}
    moved = {"object": "rules/after", "change": "move", "fields": {"order": [["c", "a", "b"], ["b", "c", "a"]]}}
    assert applied(admin, again)["changes"] == [moved]
    assert [one["name"] for one in admin.get("configuration/").json()["rules"]] == ["b", "c", "a"]
    assert applied(admin, again)["changes"] == []


def test_a_kind_of_many_pages_is_written_whole(admin: Caller) -> None:
    for n in range(120):
        made = {"name": f"d{n:03}", "kind": "http", "config": {"url": "http://127.0.0.1:9/"}}
        assert admin.post("destinations/", made).status_code == 201
    save_masking_rule(MaskingRuleFields(match="a.#", header="X"), principal=SYSTEM)
    save_masking_rule(MaskingRuleFields(match="a.#", header="Y"), principal=SYSTEM)
    document = admin.get("configuration/").json()
    assert (len(document["destinations"]), len(document["masking_rules"])) == (120, 2)
    assert applied(admin, document, prune=True)["changes"] == []
