"""Single sign-on against a provider that signs: who is let in, with what, and what is refused and written down."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from allauth.socialaccount.models import SocialAccount
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from jwt.algorithms import RSAAlgorithm
from pytest_django import Settings

from poisonadmin.core.domain.access import Role
from poisonadmin.environment import Environment
from poisonadmin.store.models.access import Access, Audit
from tests.fixtures.pages import PASSWORD, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("page_settings")]
BEGIN, CALLBACK = "/accounts/sign-on/", "/accounts/sign-on/callback/"
OURS, FOREIGN = (rsa.generate_private_key(65537, 2048) for _ in range(2))
GRANTING = {"realm_access": {"roles": ["offline_access", "ops"]}, "addresses": ["orders.#"]}


@dataclass
class Provider:
    """The mock and its next answers: `claims` replace those of the ID token, which is signed with `key`."""

    url: str
    claims: dict[str, Any] = field(default_factory=dict)
    key: Any = OURS
    algorithm: str = "RS256"
    verifier: str = ""

    def id_token(self) -> str:
        now = int(time.time())
        standard = {
            "iss": self.url,
            "aud": "poison",
            "sub": "u-1",
            "iat": now,
            "exp": now + 60,
            "preferred_username": "ann",
        }
        claims = {name: value for name, value in (standard | self.claims).items() if value is not None}
        return jwt.encode(claims, self.key, self.algorithm, {"kid": "one"})

    def answer(self, path: str, posted: dict[str, list[str]]) -> dict[str, Any]:
        if path == "/token":
            self.verifier = posted["code_verifier"][0]
            assert posted["client_secret"] == ["s3cret"]
            return {"access_token": "at", "token_type": "Bearer", "id_token": self.id_token()}
        if path == "/keys":
            return {"keys": [json.loads(RSAAlgorithm.to_jwk(OURS.public_key())) | {"kid": "one", "alg": "RS256"}]}
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    """Run a provider on this machine, and let people sign on there."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            posted = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
            body = json.dumps(of.answer(urlsplit(self.path).path, posted)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        of = Provider(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings.SIGN_ON = sign_on_of(of.url)
        yield of
        server.shutdown()


def sign_on_of(issuer: str, **more: str) -> Any:
    """Return the provider of the settings, as the environment names it."""
    variables = {
        "ISSUER": issuer,
        "CLIENT_ID": "poison",
        "CLIENT_SECRET": "s3cret",
        "ROLES_CLAIM": "realm_access.roles",
        "ROLES": "ops=operator, heads=admin",
        "PATTERNS_CLAIM": "addresses",
        **more,
    }
    return Environment({f"POISONADMIN_OIDC_{name}": value for name, value in variables.items()}).sign_on()


@dataclass
class Way:
    """A login that has begun: the browser, and what it was sent to the provider with."""

    browser: Client
    sent: dict[str, str]

    def back(self, **changed: str) -> Any:
        """Come back from the provider."""
        return self.browser.get(CALLBACK, {"code": "c", "state": self.sent["state"]} | changed)


def begun(browser: Client | None = None, query: str = "") -> Way:
    """Begin a login."""
    browser = browser or Client()
    answer = browser.get(BEGIN + query)
    assert answer.status_code == 302, answer.content
    return Way(
        browser, {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["Location"]).query).items()}
    )


def sign_on(provider: Provider, browser: Client | None = None, **claims: Any) -> Client:
    """Log in with these claims; return the browser."""
    way = begun(browser)
    provider.claims = GRANTING | {"nonce": way.sent["nonce"]} | claims
    way.back()
    return way.browser


def is_in(browser: Client) -> bool:
    return browser.get("/").status_code == 200


def reasons() -> list[str]:
    rows = Audit.objects.filter(action="user.sign_on_refused").order_by("id")
    return [row.details["reason"] for row in rows]


def test_a_person_is_given_an_account_of_what_the_claims_grant(provider: Provider) -> None:
    browser = sign_on(provider)
    assert is_in(browser)
    access = Access.objects.get(user__username="ann")
    assert (access.role, access.address_patterns) == ("operator", ["orders.#"])
    assert not User.objects.get(username="ann").has_usable_password()
    assert SocialAccount.objects.get().extra_data == {}
    assert provider.verifier, "PKCE"
    actions = Audit.objects.order_by("id").values_list("actor", "action")
    assert list(actions) == [("sign-on", "user.created"), ("ann", "user.logged_in")]


def test_each_login_gives_what_is_granted_then(provider: Provider) -> None:
    sign_on(provider)
    sign_on(provider, realm_access={"roles": ["ops", "heads"]}, addresses="#")
    access = Access.objects.get(user__username="ann")
    assert (access.role, access.address_patterns) == ("admin", [])
    assert Audit.objects.get(action="user.saved").details["was"]["role"] == "operator"


@pytest.mark.parametrize(
    "claims",
    [{"realm_access": {"roles": ["other"]}}, {"realm_access": None}, {"addresses": []}, {"addresses": None}],
    ids=str,
)
def test_what_no_longer_grants_is_refused_and_the_account_closed(provider: Provider, claims: dict[str, Any]) -> None:
    before = sign_on(provider)
    assert is_in(before)
    again = sign_on(provider, **claims)
    assert not is_in(again)
    assert not is_in(before), "its sessions have ended"
    assert not User.objects.get(username="ann").is_active
    assert "gives no" in reasons()[0]
    assert not is_in(sign_on(provider)), "an administrator opens it again, not the provider"
    assert reasons()[1] == "the account is closed"


def test_a_stranger_without_a_role_gets_no_account(provider: Provider) -> None:
    assert not is_in(sign_on(provider, realm_access={"roles": []}))
    assert not User.objects.exists()
    assert len(reasons()) == 1


@pytest.mark.parametrize(
    ("claims", "key", "algorithm"),
    [
        ({"iss": "https://elsewhere.example.org"}, OURS, "RS256"),
        ({"aud": "another-client"}, OURS, "RS256"),
        ({"aud": ["poison", "other"], "azp": "other"}, OURS, "RS256"),
        ({"exp": 1_500_000_000, "iat": 1_499_999_000}, OURS, "RS256"),
        ({"exp": None}, OURS, "RS256"),
        ({"nonce": "of-another-login"}, OURS, "RS256"),
        ({"nonce": None}, OURS, "RS256"),
        ({}, FOREIGN, "RS256"),
        ({}, "x" * 32, "HS256"),
        ({}, None, "none"),
    ],
    ids=[
        "issuer",
        "audience",
        "party",
        "expired",
        "endless",
        "nonce",
        "no-nonce",
        "signature",
        "our-secret",
        "unsigned",
    ],
)
def test_a_wrong_token_is_refused_and_written_down(
    provider: Provider, claims: dict[str, Any], key: Any, algorithm: str
) -> None:
    provider.key, provider.algorithm = key, algorithm
    assert not is_in(sign_on(provider, **claims))
    assert not User.objects.exists()
    assert len(reasons()) == 1
    assert reasons()[0].startswith("nonce" if "nonce" in claims else "id_token: ")


def test_a_state_is_taken_once_and_only_in_the_browser_that_began(provider: Provider) -> None:
    way = begun()
    provider.claims = GRANTING | {"nonce": way.sent["nonce"]}
    thief = Client()
    assert thief.get(CALLBACK, {"code": "c", "state": way.sent["state"]}).status_code == 403
    assert not is_in(thief)
    way.back()
    assert is_in(way.browser)
    way.browser.post("/accounts/logout/")
    assert way.back().status_code == 403
    assert not is_in(way.browser)
    assert way.back(state="made-up").status_code == 403
    assert reasons() == ["state"], "a stranger writes one row a minute and network"


def test_a_token_of_an_earlier_login_is_refused(provider: Provider) -> None:
    first = begun()
    sign_on(provider, nonce=first.sent["nonce"])
    assert reasons() == ["nonce"]


def test_neither_name_nor_mail_links_an_account_that_was_there(provider: Provider) -> None:
    local = make_user("Ann", Role.ADMIN)
    User.objects.filter(pk=local.pk).update(email="ann@example.org")
    assert not is_in(sign_on(provider, email="ann@example.org", email_verified=True))
    assert reasons() == ["there is another account ann"]
    browser = sign_on(provider, preferred_username="ann2", email="ann@example.org", email_verified=True)
    assert is_in(browser)
    assert Access.objects.get(user__username="ann2").role == "operator"


def test_nobody_who_is_logged_in_connects_the_provider_with_the_own_account(provider: Provider) -> None:
    make_user("vera", Role.VIEWER)
    browser = Client()
    browser.post("/accounts/login/", {"login": "vera", "password": PASSWORD})
    way = begun(browser, "?process=connect&auth_params=redirect_uri%3Dhttps%3A%2F%2Fevil.example.org&scope=admin")
    assert way.sent["redirect_uri"] == f"http://testserver{CALLBACK}"
    assert "admin" not in way.sent["scope"]
    provider.claims = GRANTING | {"nonce": way.sent["nonce"]}
    way.back()
    assert SocialAccount.objects.get().user.get_username() == "ann"


def test_passwords_can_be_switched_off_and_sessions_of_them_end(provider: Provider, settings: Settings) -> None:
    make_user("vera", Role.VIEWER)
    browser = Client()
    browser.post("/accounts/login/", {"login": "vera", "password": PASSWORD})
    assert is_in(browser)
    settings.LOCAL_LOGIN = False
    assert browser.get("/").status_code == 403
    assert browser.get("/api/v1/me/").json()["code"] == "local_login_off"
    again = Client()
    page = again.post("/accounts/login/", {"login": "vera", "password": PASSWORD})
    assert not is_in(again)
    assert 'name="password"' not in page.content.decode()
    assert is_in(sign_on(provider))


def test_without_a_provider_there_is_no_way_to_it(settings: Settings) -> None:
    settings.SIGN_ON = None
    assert Client().get(BEGIN).status_code == 404
    assert Client().get(CALLBACK, {"code": "c", "state": "s"}).status_code == 404
    assert "Log in with" not in Client().get("/accounts/login/").content.decode()


def test_a_provider_that_is_away_or_another_one_is_refused(provider: Provider, settings: Settings) -> None:
    settings.SIGN_ON = sign_on_of("http://127.0.0.1:9")
    assert Client().get(BEGIN).status_code == 403
    settings.SIGN_ON = sign_on_of(provider.url + "/")
    assert Client().get(BEGIN).status_code == 403
    assert [one.partition(":")[0] for one in reasons()] == ["provider", "issuer"]


@pytest.mark.parametrize(
    "wrong",
    [{"issuer": "http://id.example.org"}, {"ROLES": ""}, {"ROLES": "ops=root"}, {"CLIENT_ID": ""}, {"SCOPES": "mail"}],
    ids=str,
)
def test_a_wrong_setting_stops_the_start(wrong: dict[str, str]) -> None:
    with pytest.raises(ImproperlyConfigured, match="POISONADMIN_OIDC_"):
        sign_on_of(**({"issuer": "https://id.example.org"} | wrong))
