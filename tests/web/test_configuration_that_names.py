"""Configuration that names something: what its author does not see is not found, whether it exists or not."""

import json
from typing import Any

import pytest

from poisonadmin.core.domain.access import SYSTEM, Role
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from poisonadmin.policies.domain.settings import SETTINGS, named_addresses
from poisonadmin.rules.commands import create_rule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.rule import PolicyRow, Rule
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, make_user, take

NAME = "?"
RESTART_JOB = {"schedule": "0 4 * * *", "action": "approve", "reason": "because"}
HTTP = {"kind": "http", "config": {"url": "https://hooks.example.org/in"}}
WHY = {"reason": "because"}
ADDRESS_SETTINGS = sorted(name for name, _ in named_addresses(dict.fromkeys(SETTINGS, "a")))

# What a configuration names, the path that it is sent to, and the body with `?` for the name.
NAMING: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"policy's {setting}": ("policies/", {"match": "elsewhere.a", "settings": {setting: NAME}})
        for setting in ADDRESS_SETTINGS
    },
    "policy's destination": ("policies/", {"match": "elsewhere.a", "destination": NAME}),
    "redirect before": (
        "rules/",
        {
            "name": "r",
            "stage": "before",
            "match": {"address": "elsewhere.#"},
            "action": {"do": "redirect", "address": NAME},
        },
    ),
    "redirect after": (
        "rules/",
        {
            "name": "r",
            "stage": "after",
            "match": {"address": "elsewhere.#"},
            "action": {"do": "redirect", "address": NAME},
        },
    ),
    "rule's destination": (
        "rules/",
        {
            "name": "r",
            "stage": "after",
            "match": {"address": "elsewhere.#", "destination": NAME},
            "action": {"do": "park"},
        },
    ),
}
DESTINATIONS = {"policy's destination", "rule's destination"}


def names_for(what: str) -> tuple[str, str, str]:
    """Return a name that is foreign, one that nothing has, and one in the outsider's scope."""
    return ("shop", "none", "ours") if what in DESTINATIONS else ("orders.eu", "orders.none", "elsewhere.dead")


def named(body: Any, name: str) -> Any:
    return json.loads(json.dumps(body).replace(f'"{NAME}"', json.dumps(name)))


def make_ours(**config: Any) -> None:
    """Make a destination of the outsider's team, with a secret."""
    save_destination(
        "ours",
        kind="http",
        config=HTTP["config"] | config,  # type: ignore[operator]
        secrets={"Authorization": "Bearer planted-canary"},
        max_rate_per_second=None,
        owner="elsewhere.#",
        principal=SYSTEM,
    )


@pytest.mark.parametrize("what", NAMING)
def test_what_the_author_does_not_see_is_not_found_as_if_it_were_not_there(
    what: str, one_of_each: dict[str, Any], outsider: Caller, admin: Caller
) -> None:
    make_ours()
    path, body = NAMING[what]
    foreign, unknown, own = names_for(what)
    if what == "policy's messaging_engine":
        # The address is made of the engine's name, and is not in scope however it is called.
        foreign, unknown, own = "orders", "none", ""
    answers = [outsider.post(path, named(body, name)) for name in (foreign, unknown)]
    said = []
    for answer, name in zip(answers, (foreign, unknown), strict=True):
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (404, "not_found"), answer.content
        said.append(json.dumps({**problem, "request_id": None}).replace(name, NAME))
    assert said[0] == said[1], "the answer says which of them exists"
    assert not PolicyRow.objects.filter(match="elsewhere.a").exists()
    assert not Rule.objects.filter(name="r").exists()
    if own:
        assert outsider.post(path, named(body, own)).status_code == 201
    if what.startswith("policy's"):
        PolicyRow.objects.filter(match="elsewhere.a").delete()
    Rule.objects.filter(name="r").delete()
    assert admin.post(path, named(body, foreign)).status_code == 201


def test_every_setting_that_takes_an_address_is_among_those_that_name_one() -> None:
    def takes(name: str, value: str) -> bool:
        try:
            SETTINGS[name].check(value)
        except Exception:
            return False
        return True

    parts_of_names = {"dead_letter_queue_prefix", "dead_letter_queue_suffix"}
    like_addresses = {name for name in SETTINGS if takes(name, "orders.eu") and not takes(name, "orders.*")}
    assert set(ADDRESS_SETTINGS) == like_addresses - parts_of_names


@pytest.mark.parametrize(
    ("body", "own", "field"),
    [
        (
            {"preset": "websphere"},
            {"exception_destination": "specify", "exception_destination_address": "elsewhere.dead"},
            "exception_destination",
        ),
        (
            {"preset": "websphere_mq", "settings": {"backout_threshold": 1}},
            {"backout_threshold": 1, "backout_requeue_queue": "elsewhere.dead"},
            "backout_requeue_queue",
        ),
        ({"settings": {"backout_threshold": 1}}, {"backout_requeue_queue": "elsewhere.dead"}, "backout_requeue_queue"),
    ],
)
def test_a_preset_moves_nothing_to_an_address_that_its_author_does_not_see(
    body: dict[str, Any], own: dict[str, Any], field: str, outsider: Caller, admin: Caller
) -> None:
    policy = {"match": "elsewhere.a"} | body
    refused = outsider.post("policies/", policy)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (404, field)
    settings = body.get("settings", {}) | own
    assert outsider.post("policies/", policy | {"settings": settings}).status_code == 201
    assert admin.post("policies/", policy | {"match": "elsewhere.b"}).status_code == 201


def test_a_setting_is_refused_at_its_name(outsider: Caller) -> None:
    answer = outsider.post("policies/", {"match": "elsewhere.a", "settings": {"dead_letter_address": "orders.dead"}})
    assert answer.json()["errors"][0]["field"] == "dead_letter_address"


def test_what_was_named_before_stays_when_the_rest_is_changed(outsider: Caller, one_of_each: dict[str, Any]) -> None:
    settings = {"dead_letter_address": "orders.dead"}
    row = save_policy("elsewhere.a", preset=None, settings=settings, destination="shop", principal=SYSTEM)
    kept = {"match": "elsewhere.a", "destination": "shop", "settings": settings | {"max_delivery_attempts": 3}}
    assert outsider.ask("PUT", f"policies/{row.id}/", kept).status_code == 200
    for more in ({"backout_requeue_queue": "orders.dead"}, {"dead_letter_address": "orders.eu"}):
        body = kept | {"settings": settings | more}
        assert outsider.ask("PUT", f"policies/{row.id}/", body).status_code == 404
    assert outsider.get("destinations/shop/").status_code == 404
    assert outsider.get("destinations/").json()["results"] == []

    match, leads_out = {"address": "elsewhere.#"}, {"do": "redirect", "address": "orders.dead"}
    rule = create_rule("before", RuleFields(name="out", match=match, action=leads_out), principal=SYSTEM)
    body = {"name": "out", "match": match, "note": "mine"}
    assert outsider.ask("PUT", f"rules/{rule.id}/", body | {"action": leads_out}).status_code == 200
    other = leads_out | {"address": "orders.eu"}
    assert outsider.ask("PUT", f"rules/{rule.id}/", body | {"action": other}).status_code == 404


@pytest.mark.parametrize(
    ("path", "taken", "free"),
    [
        ("policies/", {"match": "orders.#"}, {"match": "orders.us.#"}),
        ("destinations/", {"name": "shop", **HTTP}, {"name": "new", **HTTP}),
        ("restart-jobs/", RESTART_JOB | {"name": "weekly"}, RESTART_JOB | {"name": "new"}),
        (
            "restart-jobs/",
            RESTART_JOB | {"name": "new", "filter": {"address": ["orders.eu"]}},
            RESTART_JOB | {"name": "new", "filter": {"address": ["orders.none"]}},
        ),
        (
            "sources/",
            {"name": "inbox", "kind": "directory", "config": {"path": "/srv/x"}},
            {"name": "new", "kind": "directory", "config": {"path": "/srv/x"}},
        ),
    ],
)
def test_what_only_an_unlimited_administrator_may_write_says_nothing_of_what_is_there(
    path: str, taken: dict[str, Any], free: dict[str, Any], one_of_each: dict[str, Any], outsider: Caller
) -> None:
    answers = [outsider.post(path, body) for body in (taken, free)]
    assert [answer.status_code for answer in answers] == [403, 403]
    patterns = (taken.get("match", "\0"), free.get("match", "\0"))
    details = {
        answer.json()["detail"].replace(pattern, NAME) for answer, pattern in zip(answers, patterns, strict=True)
    }
    assert len(details) == 1


def test_a_team_s_administrator_keeps_its_destinations_and_no_others(
    one_of_each: dict[str, Any], outsider: Caller, admin: Caller
) -> None:
    made = outsider.post("destinations/", {"name": "mine", "owner": "elsewhere.#", **HTTP})
    assert (made.status_code, made.json()["owner"]) == (201, "elsewhere.#")
    assert [row["name"] for row in outsider.get("destinations/").json()["results"]] == ["mine"]
    assert outsider.post("policies/", {"match": "elsewhere.#", "destination": "mine"}).status_code == 201
    assert outsider.post("destinations/mine/disable/", WHY).json()["is_enabled"] is False
    # The owner stays where none is given, and nobody gives away, or takes, what lies beyond their scope.
    assert outsider.ask("PUT", "destinations/mine/", HTTP).json()["owner"] == "elsewhere.#"
    for owner in ("#", "orders.#", "*"):
        answer = outsider.ask("PUT", "destinations/mine/", {**HTTP, "owner": owner})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert outsider.ask("PUT", "destinations/shop/", {**HTTP, "owner": "elsewhere.#"}).status_code == 404
    assert (
        outsider.ask("PUT", "destinations/mine/", {**HTTP, "owner": "no pattern"}).json()["code"] == "invalid_address"
    )
    assert admin.ask("PUT", "destinations/mine/", {**HTTP, "owner": "#"}).json()["owner"] == "#"
    assert outsider.get("destinations/mine/").status_code == 404
    assert outsider.post("destinations/mine/enable/", WHY).status_code == 404
    assert outsider.ask("DELETE", "destinations/mine/").status_code == 404
    assert Destination.objects.get(name="mine").owner == "#"


def test_a_destination_in_use_names_the_policies_in_scope_only(outsider: Caller, admin: Caller) -> None:
    make_ours()
    admin.post("policies/", {"match": "orders.hidden", "destination": "ours"})
    answer = outsider.ask("DELETE", "destinations/ours/")
    assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    assert "orders" not in answer.json()["detail"]
    take("orders.hidden")
    take("elsewhere.b")
    outsider.post("policies/", {"match": "elsewhere.b", "destination": "ours"})
    assert "elsewhere.b" in outsider.ask("DELETE", "destinations/ours/").json()["detail"]
    counts = [caller.get("destinations/ours/").json()["address_count"] for caller in (outsider, admin)]
    assert counts == [1, 2]


def test_only_an_unlimited_administrator_runs_code_here(
    outsider: Caller, admin: Caller, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").touch()
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    handler = {"kind": "handler", "config": {"callable": "shop:handle"}, "owner": "elsewhere.#"}
    assert outsider.post("destinations/", {"name": "code", **handler}).status_code == 403
    assert admin.post("destinations/", {"name": "code", **handler}).status_code == 201
    assert outsider.get("destinations/code/").status_code == 200
    assert outsider.ask("PUT", "destinations/code/", handler).status_code == 403
    make_ours()
    assert outsider.ask("PUT", "destinations/ours/", handler).status_code == 403


def test_a_token_s_own_patterns_limit_it_too(admin: Caller) -> None:
    make_ours()
    user = make_user("boss", Role.ADMIN, [])
    made = create_token(user, "narrow", scopes=["read", "configure"], patterns=["orders.#"], by="test")
    caller = Caller(made.text)
    assert caller.get("destinations/ours/").status_code == 404
    assert caller.post("policies/", {"match": "orders.a", "destination": "ours"}).status_code == 404
