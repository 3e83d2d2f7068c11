"""Single sign-on against a real Keycloak: who is let in, with what, and what is refused and written down."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from poisonadmin.store.models.access import Access, Audit
from poisonadmin.system.pages import sign_on as pages
from tests.system.keycloak import CLIENT, SECRET, Keycloak, running_keycloak
from tests.system.test_sign_on import BEGIN, CALLBACK, is_in, reasons, sign_on_of

# Maven fetches it.
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("page_settings"), pytest.mark.long]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    """Run one Keycloak for these tests."""
    with running_keycloak(tmp_path_factory.mktemp("keycloak")) as found:
        yield found


@pytest.fixture
def keycloak(server: Keycloak, settings: Settings) -> Keycloak:
    """Let people sign on at it; give the person what it has at first."""
    settings.SIGN_ON = sign_on_of(server.issuer(), CLIENT_ID=CLIENT, CLIENT_SECRET=SECRET)
    server.give_roles("ops")
    server.give_addresses("orders.#")
    return server


def way(keycloak: Keycloak, browser: Client) -> dict[str, str]:
    """Log in there; return what the browser comes back with."""
    begun = browser.get(BEGIN)
    assert begun.status_code == 302, begun.content
    return {name: unquote(value) for name, value in keycloak.come_back(begun.headers["Location"]).items()}


def signed_on(keycloak: Keycloak) -> Client:
    browser = Client()
    browser.get(CALLBACK, way(keycloak, browser))
    return browser


def access() -> tuple[str, list[str]]:
    found = Access.objects.get(user__username="ann")
    return found.role, found.address_patterns


def test_role_and_addresses_are_those_of_the_claims_at_each_login(keycloak: Keycloak) -> None:
    browser = signed_on(keycloak)
    assert is_in(browser)
    assert access() == ("operator", ["orders.#"])
    assert not User.objects.get(username="ann").has_usable_password()
    keycloak.give_roles("ops", "heads")
    keycloak.give_addresses("orders.#", "bills.*")
    assert is_in(signed_on(keycloak))
    assert access()[0] == "admin"
    assert sorted(access()[1]) == ["bills.*", "orders.#"]
    actions = list(Audit.objects.order_by("id").values_list("actor", "action"))
    assert actions == [
        ("sign-on", "user.created"),
        ("ann", "user.logged_in"),
        ("sign-on", "user.saved"),
        ("ann", "user.logged_in"),
    ]


@pytest.mark.parametrize("taken", ["role", "addresses"])
def test_who_is_granted_nothing_any_more_is_refused_and_shut_out(keycloak: Keycloak, taken: str) -> None:
    before = signed_on(keycloak)
    assert is_in(before)
    if taken == "role":
        keycloak.give_roles()
    else:
        keycloak.give_addresses()
    assert not is_in(signed_on(keycloak))
    assert not is_in(before), "its sessions have ended"
    assert not User.objects.get(username="ann").is_active
    assert "gives no" in reasons()[0]
    assert Audit.objects.filter(actor="sign-on", action="user.deactivated", object_id="ann").exists()


def test_another_issuer_is_refused(keycloak: Keycloak, settings: Settings) -> None:
    settings.SIGN_ON = replace(settings.SIGN_ON, issuer=keycloak.issuer("else"))
    assert Client().get(BEGIN).status_code == 403
    assert [one.partition(":")[0] for one in reasons()] == ["issuer"]


def test_a_token_for_another_client_is_refused(
    keycloak: Keycloak, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, verified = settings.SIGN_ON, pages._Exchange._verified

    def of_ours(exchange: Any, id_token: Any) -> Any:
        settings.SIGN_ON = ours
        return verified(exchange, id_token)

    settings.SIGN_ON = replace(ours, client_id="another")
    monkeypatch.setattr(pages._Exchange, "_verified", of_ours)
    assert not is_in(signed_on(keycloak))
    assert reasons() == ["id_token: InvalidAudienceError"]
    assert not User.objects.exists()


def test_an_expired_token_is_refused(keycloak: Keycloak) -> None:
    browser = Client()
    come_back = way(keycloak, browser)
    with time_machine.travel(timezone.now() + timedelta(minutes=8)):
        browser.get(CALLBACK, come_back)
        assert not is_in(browser)
    assert reasons() == ["id_token: ExpiredSignatureError"]
    assert not User.objects.exists()


def test_a_login_is_taken_once_and_only_in_the_browser_that_began(keycloak: Keycloak) -> None:
    browser, thief = Client(), Client()
    come_back = way(keycloak, browser)
    assert thief.get(CALLBACK, come_back).status_code == 403
    assert not is_in(thief)
    browser.get(CALLBACK, come_back)
    assert is_in(browser)
    browser.post("/accounts/logout/")
    assert browser.get(CALLBACK, come_back).status_code == 403
    assert not is_in(browser)
    assert reasons() == ["state"], "a stranger writes one row a minute and network"
