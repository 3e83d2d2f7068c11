"""Brokers as sources and destinations through the API, and checks of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from poisonadmin.core.domain.access import Permission, Role
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, FoundMessage, FoundQueue
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.run import LongRun
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, make_user
from tests.sources.checks import make_checks
from workers.brokers.contract import BrokerError

URL = "amqp://rabbit.example.org/shop"
LOGIN = {"username": "drain", "password": "canary"}
WHY = {"reason": "because"}


def rabbitmq(**config: Any) -> dict[str, Any]:
    """Return the body of a new source."""
    return {"name": "shop", "kind": "rabbitmq", "config": {"url": URL, "queues": ["orders.dlq"], **config}}


def replacement(**config: Any) -> dict[str, Any]:
    """Return the body that replaces it."""
    return {name: value for name, value in rabbitmq(**config).items() if name != "name"}


def login_of(name: str) -> dict[str, str]:
    login: dict[str, str] = Source.objects.get(name=name).secrets
    return login


def test_a_broker_source_is_created_and_never_shows_its_login(admin: Caller) -> None:
    answer = admin.post("sources/", {**rabbitmq(), "secrets": LOGIN})
    assert (answer.status_code, answer.json()["secret_names"]) == (201, ["password", "username"])
    assert (answer.json()["lag"], answer.json()["failures"], answer.json()["is_enabled"]) == (None, 0, True)
    assert b"canary" not in answer.content + admin.get("sources/").content + admin.get("audit/").content
    assert login_of("shop") == LOGIN


def test_a_kafka_source_has_a_group_of_its_own(admin: Caller) -> None:
    body = {"name": "shop", "kind": "kafka", "config": {"url": "kafka://k.example.org", "topics": ["orders-dlt"]}}
    assert admin.post("sources/", body).json()["config"]["group"] == "poisonadmin-shop"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"url": "amqp://drain:canary@rabbit.example.org"}, "url"),
        ({"url": "http://rabbit.example.org"}, "url"),
        ({"url": "amqp://10.1.2.3"}, "url"),
        ({"url": "amqp://169.254.169.254"}, "url"),
        ({"queues": []}, "queues"),
        ({"queues": ["a", "a"]}, "queues"),
        ({"queues": ["line\nbreak"]}, "queues"),
        ({"address": "orders.{colour}"}, "address"),
        ({"readers": 9}, "readers"),
        ({"management_url": "amqp://rabbit.example.org"}, "management_url"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_broker_source_that_cannot_be_is_refused(config: dict[str, Any], field: str, admin: Caller) -> None:
    answer = admin.post("sources/", rabbitmq(**config))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_source")
    assert answer.json()["errors"][0]["field"] == field
    assert b"canary" not in answer.content
    assert not Source.objects.exists()


@pytest.mark.parametrize("secrets", [{"token": "canary"}, {"password": "canary"}, {"username": 1}, {"username": ""}])
def test_a_login_that_is_none_is_refused_and_not_repeated(secrets: dict[str, Any], admin: Caller) -> None:
    answer = admin.post("sources/", {**rabbitmq(), "secrets": secrets})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "secrets")
    assert b"canary" not in answer.content


def test_a_login_stays_where_the_source_stays(admin: Caller) -> None:
    path = f"sources/{admin.post('sources/', {**rabbitmq(), 'secrets': LOGIN}).json()['id']}/"
    changed = admin.ask("PUT", path, replacement(queues=["orders.dlq", "bills.dlq"]))
    assert (changed.status_code, changed.json()["version"], login_of("shop")) == (200, 2, LOGIN)
    for config in ({"url": "amqp://evil.example"}, {"management_url": "https://evil.example"}, {"verify_tls": False}):
        answer = admin.ask("PUT", path, replacement(**config))
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "secrets")
    moved = {**replacement(url="amqp://new.example.org"), "secrets": LOGIN | {"password": "other"}}
    assert admin.ask("PUT", path, moved).status_code == 200
    assert login_of("shop")["password"] == "other"


def test_a_source_is_replaced_only_as_it_was_read_and_keeps_its_kind(admin: Caller) -> None:
    made = admin.post("sources/", rabbitmq())
    path = f"sources/{made.json()['id']}/"
    etag = admin.get(path)["ETag"]
    assert admin.ask("PUT", path, replacement(readers=1), If_Match=etag).status_code == 200
    assert admin.ask("PUT", path, replacement(readers=2), If_Match=etag).status_code == 412
    answer = admin.ask("PUT", path, {**replacement(url="stomp://artemis.example.org"), "kind": "artemis"})
    assert answer.json()["errors"][0]["field"] == "kind"


def test_a_source_is_switched_off_and_on_and_forgotten(admin: Caller) -> None:
    path = f"sources/{admin.post('sources/', rabbitmq()).json()['id']}/"
    assert admin.post(f"{path}disable/", WHY).json()["is_enabled"] is False
    assert admin.post(f"{path}enable/", WHY).json()["is_enabled"] is True
    assert admin.post(f"{path}disable/").status_code == 400
    assert admin.ask("DELETE", path).status_code == 204
    assert admin.get(path).status_code == 404
    actions = list(Audit.objects.order_by("id").values_list("action", "note"))
    assert actions[-3:] == [("source.disabled", "because"), ("source.enabled", "because"), ("source.deleted", None)]


def test_what_a_source_set_aside_goes_with_it(one_of_each: dict[str, Any], admin: Caller) -> None:
    assert admin.ask("DELETE", f"sources/{one_of_each['source']}/").status_code == 204
    assert admin.get(f"sources/rejected/{one_of_each['rejected']}/raw/").status_code == 404


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    """Stand for the worker's check: say what it was asked with."""
    message = FoundMessage(
        "orders.dlq", "m-1", None, False, "text/plain", 4, "body", {"x-tenant": "7"}, reason="rejected"
    )
    queue = FoundQueue("orders.dlq", 3, "the policy dlx names it")
    return BrokerCheckResult(3, [queue] if purpose == "queues" else [], [message] if purpose == "preview" else [])


@pytest.mark.parametrize("purpose", ["connection", "preview", "queues"])
def test_a_broker_is_tried_before_it_is_saved(purpose: str, admin: Caller, operator: Caller) -> None:
    asked = admin.post("sources/test/", {**replacement(), "purpose": purpose, "secrets": LOGIN})
    assert (asked.status_code, asked.json()["state"]) == (202, "queued")
    run = LongRun.objects.get()
    assert (run.secrets, "canary" in str(run.params)) == (LOGIN, False)
    assert make_checks(seen) == 1
    found = admin.get(asked["Location"].removeprefix("http://testserver")).json()
    assert (found["state"], found["error"], found["result"]["depth"]) == ("succeeded", None, 3)
    assert [one["name"] for one in found["result"]["queues"]] == (["orders.dlq"] if purpose == "queues" else [])
    assert [one["payload_text"] for one in found["result"]["messages"]] == (["body"] if purpose == "preview" else [])
    assert LongRun.objects.get().secrets is None
    for path in ("audit/", "jobs/", f"jobs/{run.id}/", f"sources/checks/{run.id}/"):
        assert b"canary" not in admin.get(path).content
    assert operator.get(f"sources/checks/{found['id']}/").status_code == 404
    assert not Source.objects.exists()


def test_queues_can_be_asked_for_before_any_is_named(admin: Caller) -> None:
    body = {"kind": "kafka", "config": {"url": "kafka://k.example.org"}}
    assert admin.post("sources/test/", {**body, "purpose": "queues"}).status_code == 202
    assert admin.post("sources/test/", body).json()["errors"][0]["field"] == "topics"


def test_a_saved_source_is_looked_at_with_its_own_login(admin: Caller, operator: Caller) -> None:
    made = admin.post("sources/", {**rabbitmq(), "secrets": LOGIN}).json()
    logins = []

    def check(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
        logins.append(dict(login))
        return seen(purpose, kind, config, login)

    refused = operator.post(f"sources/{made['id']}/groups/")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "purpose")
    for part in ("test", "preview", "queues"):
        asked = operator.post(f"sources/{made['id']}/{part}/")
        assert make_checks(check) == 1
        assert operator.get(f"sources/checks/{asked.json()['id']}/").json()["state"] == "succeeded"
    assert admin.post("sources/test/", {**replacement(), "source_id": made["id"]}).status_code == 202
    assert make_checks(check) == 1
    assert logins == [LOGIN] * 4


def test_a_stored_login_is_not_tried_at_another_place(admin: Caller) -> None:
    made = admin.post("sources/", {**rabbitmq(), "secrets": LOGIN}).json()
    answer = admin.post("sources/test/", {**replacement(url="amqp://evil.example"), "source_id": made["id"]})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "secrets")
    assert not LongRun.objects.exists()


def test_a_check_says_why_it_failed_and_repeats_no_login(admin: Caller) -> None:
    def refused(*_: object) -> BrokerCheckResult:
        raise BrokerError("ACCESS_REFUSED by rabbit.example.org:5672")

    def broken(*_: object) -> BrokerCheckResult:
        raise RuntimeError("canary")

    for check, error in ((refused, "ACCESS_REFUSED by rabbit.example.org:5672"), (broken, "RuntimeError; ")):
        asked = admin.post("sources/test/", {**replacement(), "secrets": LOGIN})
        assert make_checks(check) == 1
        found = admin.get(f"sources/checks/{asked.json()['id']}/")
        assert found.json()["state"] == "failed"
        assert found.json()["error"].startswith(error)
        assert b"canary" not in found.content


def test_a_check_that_nobody_answers_is_given_up(admin: Caller) -> None:
    asked = admin.post("sources/test/", replacement())
    LongRun.objects.update(created_at="2020-01-01T00:00:00Z")
    found = admin.get(f"sources/checks/{asked.json()['id']}/").json()
    assert (found["state"], found["error"]) == ("failed", "No worker has answered; is an io worker running?")


def test_only_so_many_checks_wait(admin: Caller) -> None:
    another = Caller(create_token(make_user("kim", Role.ADMIN, []), "test", scopes=list(Permission), by="test").text)
    answers = [one.post("sources/test/", replacement()) for one in [*[admin, another] * 10, admin]]
    assert [one.status_code for one in answers] == [202] * 20 + [429]
    assert answers[-1].json()["detail"] == "There are 20 runs (broker check) that have not ended. Wait for one."


def test_a_directory_is_not_looked_at_as_a_broker(one_of_each: dict[str, Any], admin: Caller) -> None:
    assert admin.post(f"sources/{one_of_each['source']}/test/").json()["code"] == "invalid_source"


def broker(**config: Any) -> dict[str, Any]:
    """Return the body of a destination."""
    return {"kind": "rabbitmq", "config": {"url": URL, **config}}


def test_a_broker_destination_keeps_its_login_to_itself(admin: Caller) -> None:
    answer = admin.post("destinations/", {"name": "back", **broker(), "secrets": LOGIN})
    assert (answer.status_code, answer.json()["secret_names"]) == (201, ["password", "username"])
    assert b"canary" not in answer.content
    assert admin.ask("PUT", "destinations/back/", broker(queue="orders")).status_code == 200
    refused = admin.ask("PUT", "destinations/back/", broker(url="amqp://evil.example"))
    assert refused.json()["errors"][0]["field"] == "secrets"
    assert Destination.objects.get().secrets == LOGIN
    http = {"kind": "http", "config": {"url": "https://hooks.example.org/"}}
    assert admin.ask("PUT", "destinations/back/", http).json()["secret_names"] == []


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"queue": "a", "exchange": "b"}, "exchange"),
        ({"routing_key": "a"}, "routing_key"),
        ({"topic": "a"}, "topic"),
        ({"batch": 0}, "batch"),
        ({"confirm_within_ms": 1}, "confirm_within_ms"),
        ({"headers": {}}, "headers"),
    ],
)
def test_a_broker_destination_that_cannot_be_is_refused(config: dict[str, Any], field: str, admin: Caller) -> None:
    answer = admin.post("destinations/", {"name": "back", **broker(**config)})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
