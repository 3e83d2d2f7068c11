"""Secrets of a destination go to no other place than the one they were given for, and stand nowhere else."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.destination import Destination
from tests.fixtures.api import Caller

URL = "https://hooks.example.org/in"
CANARY = {"Authorization": "Bearer planted-canary"}
BROKER = {"username": "drain", "password": "planted-canary"}


def http(url: str = URL, **config: Any) -> dict[str, Any]:
    return {"kind": "http", "config": {"url": url, **config}}


@pytest.fixture
def hooks(admin: Caller) -> None:
    """Make an HTTP destination with a secret."""
    assert admin.post("destinations/", {"name": "hooks", **http(), "secrets": CANARY}).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        http("https://evil.example/in"),
        http("https://hooks.example.org.evil.example/in"),
        http("https://hooks.example.org:8443/in"),
        http("http://hooks.example.org/in"),
        http("http://hooks.example.org:443/in"),
        http(verify_tls=False),
    ],
)
def test_the_secrets_of_an_http_destination_do_not_go_to_another_place(
    body: dict[str, Any], hooks: None, admin: Caller
) -> None:
    answer = admin.ask("PUT", "destinations/hooks/", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_destination")
    assert answer.json()["errors"][0]["field"] == "secrets"
    assert Destination.objects.get().config == {"url": URL}
    given = {**body, "secrets": {"Authorization": "Bearer other"}}
    assert admin.ask("PUT", "destinations/hooks/", given).status_code == 200
    assert Destination.objects.get().secrets == {"Authorization": "Bearer other"}
    assert admin.ask("PUT", "destinations/hooks/", {**http(), "secrets": {}}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        http("https://hooks.example.org/other?kind=2"),
        http("https://hooks.example.org:443/in"),
        http("https://HOOKS.example.org/in"),
        http("https://hooks.example.org/"),
        http(timeout_ms=500),
        http(verify_tls=True),
    ],
)
def test_they_stay_where_the_place_is_the_same(body: dict[str, Any], hooks: None, admin: Caller) -> None:
    assert admin.ask("PUT", "destinations/hooks/", body).json()["secret_names"] == ["Authorization"]


def test_a_certificate_that_is_verified_again_needs_no_new_secrets(admin: Caller) -> None:
    admin.post("destinations/", {"name": "hooks", **http(verify_tls=False), "secrets": CANARY})
    assert admin.ask("PUT", "destinations/hooks/", http()).json()["secret_names"] == ["Authorization"]


def test_another_kind_of_destination_has_none_of_them(hooks: None, admin: Caller) -> None:
    rabbit = {"kind": "rabbitmq", "config": {"url": "amqp://rabbit.example.org"}}
    assert admin.ask("PUT", "destinations/hooks/", rabbit).json()["secret_names"] == []


def test_the_login_of_a_broker_does_not_go_to_another_place_either(admin: Caller) -> None:
    rabbit = {"kind": "rabbitmq", "config": {"url": "amqps://rabbit.example.org"}}
    admin.post("destinations/", {"name": "back", **rabbit, "secrets": BROKER})
    for config in (
        {"url": "amqps://evil.example"},
        {"url": "amqp://rabbit.example.org"},
        {"url": "amqps://rabbit.example.org:5673"},
        {"url": "amqps://rabbit.example.org", "verify_tls": False},
    ):
        answer = admin.ask("PUT", "destinations/back/", {**rabbit, "config": config})
        assert answer.json()["errors"][0]["field"] == "secrets"
    assert admin.ask("PUT", "destinations/back/", rabbit).json()["secret_names"] == ["password", "username"]


def test_the_form_asks_for_the_secrets_again(browser_of: Callable[[str], Client]) -> None:
    Destination.objects.create(name="hooks", kind="http", config={"url": URL}, secrets=CANARY)
    typed = {"url": "https://evil.example/in", "verify_tls": "on", "copy_headers": "x-*", "version": "1"}
    answer = browser_of("admin").post("/destinations/http/?name=hooks", typed)
    assert answer.status_code == 422
    assert 'id="secrets_error"' in answer.content.decode()
    assert Destination.objects.get().config == {"url": URL}


@pytest.mark.parametrize(
    "name", ["Authorization", "authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Amz-Security-Token"]
)
def test_what_names_the_caller_is_no_plain_header(name: str, admin: Caller) -> None:
    answer = admin.post("destinations/", {"name": "hooks", **http(headers={name: "planted-canary"})})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_destination")
    assert answer.json()["errors"][0]["field"] == "headers"
    assert "secrets" in answer.json()["detail"]
    assert b"planted-canary" not in answer.content
    assert not Audit.objects.filter(action="destination.saved").exists()
    assert admin.post("destinations/", {"name": "hooks", **http(), "secrets": {name: "x"}}).status_code == 201


@pytest.mark.parametrize("field", ["headers", "secrets"])
def test_what_speaks_to_a_proxy_is_neither(field: str, admin: Caller) -> None:
    headers = {"Proxy-Authorization": "planted-canary"}
    body = http(headers=headers) if field == "headers" else {**http(), "secrets": headers}
    assert admin.post("destinations/", {"name": "hooks", **body}).json()["errors"][0]["field"] == field


def test_what_names_the_origin_may_be_a_plain_header(admin: Caller) -> None:
    assert admin.post("destinations/", {"name": "hooks", **http(headers={"Via": "1.1 us"})}).status_code == 201
