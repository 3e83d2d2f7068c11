"""Destinations, policies and sources through the API, and SSRF as far as a configuration can be judged."""

from typing import Any

import pytest

from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.masking import MaskingRule
from tests.fixtures.api import Caller, take

URL = "https://hooks.example.org/in"
WHY = {"reason": "because"}


def http(url: str = URL, **config: Any) -> dict[str, Any]:
    """Return the body of a new destination."""
    return {"name": "hooks", "kind": "http", "config": {"url": url, **config}}


@pytest.mark.parametrize(
    "url",
    [
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://2130706433/",
        "http://127.1/",
        "http://user:secret@hooks.example.org/",
        "file:///etc/passwd",
        "gopher://hooks.example.org/",
        "javascript:alert(1)",
        "//hooks.example.org/",
        "http://",
        "http://hooks.example.org:0/",
        "http://hooks.example.org/\r\nHost: evil",
        "http://hooks.example.org\\@evil.example/",
        "http://[::1%25eth0]/",
        "not a url",
        "",
    ],
)
def test_a_url_that_hides_where_it_goes_is_refused(url: str, admin: Caller) -> None:
    answer = admin.post("destinations/", http(url))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_destination")
    assert answer.json()["errors"][0]["field"] == "url"
    assert not Destination.objects.exists()


@pytest.mark.parametrize(
    "config",
    [
        {"colour": 1},
        {"timeout_ms": 0},
        {"timeout_ms": "long"},
        {"concurrency": 10_000},
        {"method": "TRACE"},
        {"headers": {"X\r\nY": "z"}},
        {"headers": {"X": "a\r\nSet-Cookie: b"}},
        {"headers": {"Host": "evil"}},
    ],
)
def test_a_setting_that_cannot_be_is_refused(config: dict[str, Any], admin: Caller) -> None:
    assert admin.post("destinations/", http(**config)).json()["code"] == "invalid_destination"


@pytest.mark.parametrize("secrets", [{"X": "a\r\nb"}, {"X": 1}, {"": "x"}, {"Host": "evil"}])
def test_a_secret_that_is_no_header_is_refused(secrets: dict[str, Any], admin: Caller) -> None:
    assert admin.post("destinations/", {**http(), "secrets": secrets}).status_code == 400


def test_secrets_stay_when_they_are_not_given(admin: Caller) -> None:
    admin.post("destinations/", {**http(), "secrets": {"Authorization": "Basic canary"}})
    body = {"kind": "http", "config": {"url": URL + "2"}}
    found = admin.ask("PUT", "destinations/hooks/", body).json()
    assert (found["config"]["url"], found["secret_names"], found["version"]) == (URL + "2", ["Authorization"], 2)
    assert admin.ask("PUT", "destinations/hooks/", {**body, "secrets": {}}).json()["secret_names"] == []


@pytest.mark.parametrize("name", ["", " ", "a/b", "a\nb", "x" * 101, 7])
def test_a_name_must_fit_a_path(name: Any, admin: Caller) -> None:
    answer = admin.post("destinations/", {**http(), "name": name})
    assert answer.json()["errors"][0]["field"] == "name"


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/", "http://10.1.2.3/", "http://[::ffff:10.1.2.3]/", "http://[fe80::1]/", "http://0/"],
)
def test_a_url_into_a_private_network_is_refused(url: str, admin: Caller) -> None:
    assert admin.post("destinations/", http(url)).json()["code"] == "invalid_destination"


def test_a_name_is_taken_once(admin: Caller) -> None:
    first = admin.post("destinations/", http())
    assert (first.status_code, first["Location"]) == (201, "http://testserver/api/v1/destinations/hooks/")
    assert admin.post("destinations/", http()).json()["code"] == "already_exists"
    assert admin.ask("DELETE", "destinations/hooks/").status_code == 204
    assert admin.get("destinations/hooks/").status_code == 404


def test_a_configuration_is_replaced_only_as_it_was_read(admin: Caller) -> None:
    admin.post("destinations/", http())
    body = {"kind": "http", "config": {"url": URL}}
    etag = admin.get("destinations/hooks/")["ETag"]
    assert admin.ask("PUT", "destinations/hooks/", body, If_Match=etag).status_code == 200
    assert admin.ask("PUT", "destinations/hooks/", body, If_Match=etag).status_code == 412
    policy = admin.post("policies/", {"match": "a.#", "settings": {}})
    path, body = f"policies/{policy.json()['id']}/", {"match": "a.#", "settings": {"redelivery_delay": 1}}
    assert admin.ask("PUT", path, body, If_Match=policy["ETag"]).status_code == 200
    assert admin.ask("PUT", path, body, If_Match=policy["ETag"]).status_code == 412


def test_a_disabled_destination_says_so(admin: Caller) -> None:
    admin.post("destinations/", http())
    assert admin.post("destinations/hooks/disable/", WHY).json()["is_enabled"] is False
    assert admin.post("destinations/hooks/enable/", WHY).json()["is_enabled"] is True


def test_a_policy_is_in_force_where_it_matches_and_says_where_each_value_comes_from(admin: Caller) -> None:
    admin.post("destinations/", http())
    admin.post("policies/", {"match": "orders.#", "preset": "artemis", "destination": "hooks"})
    admin.post("policies/", {"match": "orders.vip", "settings": {"max_delivery_attempts": -1}})
    found = admin.get("policies/resolve/?address=orders.vip").json()
    assert (found["policy"]["max_delivery_attempts"], found["policy"]["redelivery_delay"]) == (-1, 0)
    assert found["destination"] == "hooks"
    assert found["origins"]["max_delivery_attempts"] == {"pattern": "orders.vip", "preset": None}
    assert found["origins"]["redelivery_delay"] == {"pattern": "orders.#", "preset": "artemis"}
    take("orders.vip")
    address = admin.get("addresses/orders.vip/").json()
    assert (address["destination"], address["policy"], address["counts"]["TBDL"]) == ("hooks", found["policy"], 1)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"match": "a..b"}, "invalid_address"),
        ({"match": "a.b*"}, "invalid_address"),
        ({"match": "a", "settings": {"colour": 1}}, "unknown_setting"),
        ({"match": "a", "settings": {"redelivery_delay": -1}}, "invalid_setting"),
        ({"match": "a", "settings": {"redelivery_collision_avoidance_factor": 2}}, "invalid_setting"),
        ({"match": "a", "preset": "kafka"}, "invalid_request"),
        ({"match": "a", "destination": "nowhere"}, "not_found"),
        ({"match": "a", "settings": []}, "invalid_request"),
        ({"settings": {}}, "invalid_request"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(body: dict[str, Any], code: str, admin: Caller) -> None:
    answer = admin.post("policies/", body)
    assert (answer.status_code // 100, answer.json()["code"]) == (4, code)


def test_a_policy_keeps_its_pattern(admin: Caller) -> None:
    path = f"policies/{admin.post('policies/', {'match': 'a.#'}).json()['id']}/"
    assert admin.ask("PUT", path, {"match": "b.#"}).json()["errors"][0]["field"] == "match"
    assert admin.post("policies/", {"match": "a.#"}).json()["code"] == "already_exists"


def test_a_preview_computes_the_waits_and_saves_nothing(admin: Caller) -> None:
    settings = {"redelivery_delay": 1000, "redelivery_delay_multiplier": 2, "max_redelivery_delay": 4000}
    body = {"preset": "artemis", "settings": settings, "failures": 4}
    found = admin.post("policies/preview/", body).json()
    assert (found["delays_ms"], found["warnings"]) == ([1000, 2000, 4000, 4000], [])
    assert found["formulas"][2] == "1000 ms x 2^2 = 4000, cap 4000"
    assert (found["attempts"], found["then"], found["reason"]) == (10, "FAIL", "discarded_by_policy")
    jittered = {**body, "settings": {**settings, "redelivery_collision_avoidance_factor": 0.5}, "message_id": "17"}
    first, again = (admin.post("policies/preview/", jittered).json()["delays_ms"] for _ in range(2))
    assert first == again != [1000, 2000, 4000, 4000]
    assert admin.get("policies/").json()["results"] == []


def test_a_preview_inherits_at_a_pattern(admin: Caller) -> None:
    admin.post("policies/", {"match": "orders.#", "settings": {"redelivery_delay": 70}})
    body = {"settings": {"redelivery_delay_multiplier": 3}, "failures": 2, "match": "orders.eu"}
    assert admin.post("policies/preview/", body).json()["delays_ms"] == [70, 210]


@pytest.mark.conformance("R15")
@pytest.mark.parametrize(
    "back",
    [
        {"preset": "artemis", "settings": {"dead_letter_address": "orders.eu"}},
        {
            "preset": "websphere",
            "settings": {"exception_destination": "specify", "exception_destination_address": "orders.eu"},
        },
        {
            "preset": "websphere_mq",
            "settings": {"listener_max_retries": 9, "backout_threshold": 3, "backout_requeue_queue": "orders.eu"},
        },
    ],
)
def test_policies_warn_of_dead_letters_that_come_back(admin: Caller, back: dict[str, Any]) -> None:
    admin.post("destinations/", http())
    settings = {"dead_letter_address": "late", "redelivery_delay": 1000}
    body = {"match": "orders.#", "preset": "artemis", "settings": settings, "destination": "hooks"}
    assert admin.post("policies/", body).json()["warnings"] == []
    returns = {"match": "late", "destination": "hooks"} | back
    is_back = "is moved to orders.eu, and from there back to where it was"
    previewed = {"match": "late", "failures": 1} | back
    assert is_back in admin.post("policies/preview/", previewed).json()["warnings"][0]
    assert any(is_back in one for one in admin.post("policies/", returns).json()["warnings"])
    there, here = admin.get("policies/").json()["results"]
    assert (there["match"], here["match"]) == ("late", "orders.#")
    assert "is moved to late, and from there back" in here["warnings"][0]


def test_a_policy_tells_of_its_versions_and_warns(admin: Caller) -> None:
    body = {"match": "orders.#", "settings": {"listener_max_retries": 2, "backout_threshold": 2}}
    made = admin.post("policies/", body).json()
    assert made["warnings"][0].startswith("listener_max_retries (2) should exceed backout_threshold (2)")
    changed = {**body, "settings": {"listener_max_retries": 5, "backout_threshold": 2}}
    assert admin.ask("PUT", f"policies/{made['id']}/", changed).json()["warnings"] == []
    newest, first = admin.get(f"policies/{made['id']}/history/").json()["results"]
    assert (newest["version"], newest["changes"]) == (2, [{"field": "listener_max_retries", "was": 2, "now": 5}])
    assert first["version"] == 1


def test_the_schedule_of_a_message_is_explained(admin: Caller) -> None:
    admin.post("destinations/", http())
    settings = {"redelivery_delay": 1000, "max_delivery_attempts": 3, "redelivery_collision_avoidance_factor": 0}
    admin.post("policies/", {"match": "orders.#", "settings": settings, "destination": "hooks"})
    found = admin.get(f"messages/{take()}/schedule/").json()
    assert [(step["failure"], step["delay_ms"], step["then"]) for step in found["next"]] == [
        (1, 1000, "TBDL"),
        (2, 2000, "TBDL"),
        (3, None, "NDLV"),
    ]
    assert found["next"][1]["formula"] == "1000 ms x 2^1 = 2000, cap 50000"
    assert found["next"][2]["reason"] == "attempts_exhausted"
    assert found["sentence"].startswith("attempt 1 of 3 (failure_count 0) due at ")
    assert found["sentence"].endswith(": taken in, so due at once")
    assert found["held"] == {"reasons": [], "predecessors": [], "predecessor_count": 0, "successor_count": 0}


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/proc/self", "/etc", "/", "", "/a\x01b"])
def test_a_source_is_a_directory_that_may_be_read(path: str, admin: Caller) -> None:
    answer = admin.post("sources/", {"name": "s", "kind": "directory", "config": {"path": path}})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_source")
    assert not Source.objects.exists()


def test_what_a_source_set_aside_can_be_read_and_downloaded(one_of_each: dict[str, Any], admin: Caller) -> None:
    MaskingRule.objects.all().delete()  # a line that cannot be read may be of any address
    (row,) = admin.get(f"sources/{one_of_each['source']}/rejected/").json()["results"]
    assert (row["line"], row["code"], row["raw_text"], row["raw_bytes"]) == (3, "invalid_json", "{", 1)
    answer = admin.get(f"sources/rejected/{row['id']}/raw/")
    assert (answer.content, answer["Content-Type"]) == (b"{", "application/octet-stream")
    admin.post("messages/batch/", b"nonsense", Content_Type="application/x-ndjson")
    (line,) = admin.get("sources/rejected/").json()["results"]
    assert (line["path"], line["raw_text"]) == (None, "nonsense")


def test_durations_are_given_as_people_write_them_and_answered_in_milliseconds(admin: Caller) -> None:
    destination = admin.post("destinations/", http(timeout_ms="1 min 30 s")).json()
    waits = {"redelivery_delay": "5 min", "max_redelivery_delay": "1 h"}
    policy = admin.post("policies/", {"match": "orders.#", "settings": waits}).json()
    action = {"do": "retry", "delay_ms": "90s"}
    rule = {"name": "later", "stage": "after", "match": {"address": "orders.#"}, "action": action}
    ruled = admin.post("rules/", rule).json()
    assert destination["config"]["timeout_ms"] == 90_000
    assert policy["settings"] == {"redelivery_delay": 300_000, "max_redelivery_delay": 3_600_000}
    assert ruled["action"] == {"do": "retry", "delay_ms": 90_000}
    preview = {"match": "orders.eu", "settings": {}, "failures": 2}
    assert admin.post("policies/preview/", preview).json()["delays_ms"][0] == 300_000
    refused = admin.post("policies/", {"match": "bills.#", "settings": {"redelivery_delay": "5000"}})
    assert (refused.status_code, "such as 90s" in refused.json()["detail"]) == (400, True)
