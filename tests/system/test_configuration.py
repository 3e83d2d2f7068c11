"""The configuration as one document: what is written brings another installation to the same, and nothing by halves."""

import json
from typing import Any

import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.masking.commands import save_masking_rule
from poisonadmin.masking.domain import MaskingRuleFields
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.rule import PolicyRow, Rule
from poisonadmin.system.domain.configuration import KINDS
from tests.fixtures.api import Caller

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


def test_a_document_brings_an_empty_installation_to_the_same(one_of_each: dict[str, Any], admin: Caller) -> None:
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
        {"object": "destinations/shop", "change": "switch", "fields": {"is_enabled": [False, True]}},
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


def test_prune_removes_only_of_the_kinds_that_are_named(one_of_each: dict[str, Any], admin: Caller) -> None:
    found = applied(admin, {"views": [], "rules": []}, prune=True)
    assert [(one["change"], one["object"]) for one in found["changes"]] == [
        ("remove", "rules/no tests"),
        ("remove", "views/late"),
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
