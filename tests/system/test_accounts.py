"""Accounts in the API: who may manage whom, what nobody gives, and what ends when an account is closed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import close_old_connections, connection
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.store.models.access import Access, ApiToken, Audit
from poisonadmin.system.commands.accounts import create_token
from poisonadmin.system.commands.managed_accounts import LastAdmin, close_account
from tests.fixtures.api import Caller, make_user, take
from tests.fixtures.pages import PASSWORD

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("page_settings")]
NEW = {"name": "nora", "role": "operator", "patterns": ["orders.#"]}


def caller(name: str, role: Role, patterns: list[str], scopes: list[str] | None = None) -> Caller:
    """Return somebody with a token of these scopes, of all where None."""
    return Caller(create_token(make_user(name, role, patterns), "t", scopes=scopes or list(Permission), by="test").text)


@pytest.fixture
def limited(db: None) -> Caller:
    """Return an administrator of the orders."""
    return caller("olga", Role.ADMIN, ["orders.#"])


def test_an_account_is_made_listed_changed_closed_and_opened_again(admin: Caller) -> None:
    made = admin.post("accounts/", NEW | {"password": PASSWORD})
    assert made.status_code == 201, made.content
    assert made.json()["patterns"] == ["orders.#"]
    assert User.objects.get(username="nora").check_password(PASSWORD)
    assert [row["name"] for row in admin.get("accounts/").json()["results"]] == ["admin", "nora"]
    changed = admin.ask("PATCH", "accounts/nora/", {"role": "viewer", "patterns": []})
    assert (changed.json()["role"], changed.json()["patterns"]) == ("viewer", [])
    assert admin.ask("DELETE", "accounts/nora/").status_code == 204
    assert admin.get("accounts/nora/").json()["is_active"] is False
    assert admin.ask("PATCH", "accounts/nora/", {"is_active": True}).json()["is_active"] is True
    actions = Audit.objects.filter(object_type="user", object_id="nora").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["user.created", "user.saved", "user.deactivated", "user.activated"]
    was = Audit.objects.get(action="user.saved").details["was"]
    assert was == {"role": "operator", "address_patterns": ["orders.#"]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a b"),
        ("name", "System"),
        ("name", ".."),
        ("role", "owner"),
        ("patterns", ["a b"]),
        ("patterns", ["orders.eu,orders.us"]),
        ("password", "short"),
    ],
)
def test_what_is_wrong_with_an_account_is_said_at_its_field(admin: Caller, field: str, value: object) -> None:
    answer = admin.post("accounts/", NEW | {field: value})
    assert answer.status_code == 400
    assert not User.objects.filter(access__isnull=False).exclude(username="admin").exists()
    assert field in answer.content.decode()


def test_a_name_is_taken_in_small_letters_too(admin: Caller) -> None:
    assert admin.post("accounts/", NEW).status_code == 201
    assert admin.post("accounts/", NEW | {"name": "NORA"}).json()["code"] == "already_exists"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.REVIEWER])
def test_only_who_may_configure_manages_accounts(admin: Caller, role: Role) -> None:
    other = caller("eve", role, [])
    assert other.get("accounts/").status_code == 403
    assert other.post("accounts/", NEW).status_code == 403
    assert other.ask("PATCH", "accounts/eve/", {"role": "admin"}).status_code == 403
    assert other.post("accounts/eve/tokens/", {"label": "t"}).status_code == 403
    assert Access.objects.get(user__username="eve").role == role


def test_a_limited_administrator_manages_only_accounts_within_the_limit(admin: Caller, limited: Caller) -> None:
    make_user("inside", Role.VIEWER, ["orders.eu"])
    for name, patterns in {"everywhere": [], "beside": ["bills.#"], "partly": ["orders.eu", "bills.eu"]}.items():
        make_user(name, Role.VIEWER, patterns)
        assert limited.get(f"accounts/{name}/").status_code == 404
        assert limited.ask("PATCH", f"accounts/{name}/", {"role": "viewer"}).status_code == 404
        assert limited.ask("DELETE", f"accounts/{name}/").status_code == 404
        assert limited.post(f"accounts/{name}/link/").status_code == 404
        assert limited.post(f"accounts/{name}/tokens/", {"label": "t"}).status_code == 404
        assert limited.get(f"accounts/{name}/tokens/").status_code == 404
        assert limited.get(f"accounts/{name}/sessions/").status_code == 404
    assert [row["name"] for row in limited.get("accounts/").json()["results"]] == ["inside", "olga"]
    assert limited.ask("PATCH", "accounts/inside/", {"role": "operator"}).status_code == 200


@pytest.mark.parametrize("patterns", [[], ["bills.#"], ["#"], ["orders.#", "*.eu"]])
def test_a_limited_administrator_gives_no_wider_addresses(limited: Caller, patterns: list[str]) -> None:
    assert limited.post("accounts/", NEW | {"patterns": patterns}).status_code == 403
    assert limited.ask("PATCH", "accounts/olga/", {"patterns": patterns}).status_code == 403
    assert Access.objects.get(user__username="olga").address_patterns == ["orders.#"]


def test_a_token_of_an_administrator_gives_no_more_than_its_scopes_and_addresses(admin: Caller) -> None:
    make_user("vera", Role.VIEWER, [])
    make_user("otto", Role.OPERATOR, ["orders.#"])
    few = caller("few", Role.ADMIN, [], ["configure", "read", "read_payload", "export"])
    assert few.ask("PATCH", "accounts/few/", {"patterns": []}).status_code == 403
    assert few.ask("PATCH", "accounts/vera/", {"role": "operator"}).status_code == 403
    assert few.ask("PATCH", "accounts/otto/", {"password": PASSWORD}).status_code == 403
    assert few.post("accounts/otto/tokens/", {"label": "t"}).status_code == 403
    assert few.post("accounts/otto/link/").status_code == 403
    assert few.post("accounts/", NEW).status_code == 403
    assert few.post("accounts/vera/tokens/", {"label": "t", "scopes": ["decide"]}).status_code == 403
    assert few.post("accounts/vera/tokens/", {"label": "t"}).status_code == 201


def test_the_last_administrator_without_a_limit_is_neither_closed_nor_lowered(admin: Caller) -> None:
    make_user("olga", Role.ADMIN, ["orders.#"])
    changes: list[tuple[str, Any]] = [
        ("DELETE", None),
        ("PATCH", {"role": "viewer"}),
        ("PATCH", {"patterns": ["orders.#"]}),
        ("PATCH", {"is_active": False}),
    ]
    for method, body in changes:
        assert admin.ask(method, "accounts/admin/", body).json()["code"] == "last_admin"
    make_user("ada", Role.ADMIN, [])
    assert admin.ask("DELETE", "accounts/ada/").status_code == 204
    assert admin.ask("DELETE", "accounts/admin/").status_code == 409


@pytest.mark.django_db(transaction=True)
def test_two_administrators_who_close_one_another_at_once_leave_one() -> None:
    names = ["ada", "bea"]
    for name in names:
        make_user(name, Role.ADMIN, [])

    def close(name: str) -> bool:
        try:
            close_account(name, principal=SYSTEM)
        except LastAdmin:
            return False
        finally:
            connection.close()
            close_old_connections()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(close, names)) == [False, True]
    assert User.objects.filter(is_active=True).count() == 1


def test_a_token_is_shown_once_and_listed_without_its_text(admin: Caller) -> None:
    make_user("vera", Role.VIEWER, ["orders.#"])
    made = admin.post("accounts/vera/tokens/", {"label": "nightly", "expires_in_days": 30}).json()
    reader = Caller(made["token"])
    message_id = take("orders.eu")
    assert reader.get(f"messages/{message_id}/").status_code == 200
    assert reader.get("me/").json()["patterns"] == [["orders.#"]]
    listed = admin.get("accounts/vera/tokens/")
    [row] = listed.json()["results"]
    assert made["token"] not in listed.content.decode()
    assert row["label"] == "nightly"
    assert row["last_used_at"] is not None
    assert row["expires_at"] is not None
    assert admin.get("accounts/vera/").json()["tokens"] == 1
    assert admin.ask("DELETE", f"accounts/admin/tokens/{made['id']}/").status_code == 404
    assert admin.ask("DELETE", f"accounts/vera/tokens/{made['id']}/").status_code == 204
    assert reader.get("me/").status_code == 401
    assert admin.get("accounts/vera/tokens/").json()["results"] == []


def test_an_idempotency_key_keeps_no_token(admin: Caller) -> None:
    make_user("vera", Role.VIEWER, [])
    for _ in range(2):
        admin.post("accounts/vera/tokens/", {"label": "t"}, Idempotency_Key="k")
    assert ApiToken.objects.filter(user__username="vera").count() == 2


def logged_in(name: str) -> Client:
    """Return a browser in which the account has logged in."""
    browser = Client()
    assert browser.post("/accounts/login/", {"login": name, "password": PASSWORD}).status_code == 302
    return browser


def test_closing_ends_sessions_and_tokens_at_once(admin: Caller) -> None:
    admin.post("accounts/", NEW | {"password": PASSWORD})
    token = Caller(admin.post("accounts/nora/tokens/", {"label": "t"}).json()["token"])
    browser = logged_in("nora")
    assert (browser.get("/").status_code, token.get("me/").status_code) == (200, 200)
    admin.ask("DELETE", "accounts/nora/")
    assert (browser.get("/").status_code, token.get("me/").status_code) == (302, 401)
    assert admin.get("accounts/nora/sessions/").json()["results"] == []
    again = Client()
    again.post("/accounts/login/", {"login": "nora", "password": PASSWORD})
    assert again.get("/").status_code == 302


def test_a_session_is_listed_and_ended_and_the_others_go_on(admin: Caller) -> None:
    admin.post("accounts/", NEW | {"password": PASSWORD})
    first, second = logged_in("nora"), logged_in("nora")
    rows = admin.get("accounts/nora/sessions/").json()["results"]
    assert len(rows) == 2
    assert rows[0]["network"] == "127.0.0.0"
    assert first.session.session_key not in str(rows)
    mine = rows[0]
    assert admin.ask("DELETE", f"accounts/nora/sessions/{mine['key']}/").status_code == 204
    assert sorted([first.get("/").status_code, second.get("/").status_code]) == [200, 302]
    assert admin.ask("DELETE", f"accounts/nora/sessions/{mine['key']}/").status_code == 404


@pytest.mark.parametrize("change", [{"password": "another-horse-entirely"}, {"is_active": False}])
def test_another_password_ends_the_sessions(admin: Caller, change: dict[str, Any]) -> None:
    admin.post("accounts/", NEW | {"password": PASSWORD})
    browser = logged_in("nora")
    assert admin.ask("PATCH", "accounts/nora/", change).status_code == 200
    assert browser.get("/").status_code == 302


def follow(link: str, password: str, browser: Client | None = None) -> Any:
    """Open a link to set a password, and set it; return the last answer."""
    browser = browser or Client()
    form = browser.get(link.removeprefix("http://testserver"), follow=True)
    fields = {"new_password1": password, "new_password2": password}
    return browser.post(form.request["PATH_INFO"], fields)


def test_a_link_sets_the_password_once_and_logs_nobody_in(admin: Caller) -> None:
    admin.post("accounts/", NEW)
    link = admin.post("accounts/nora/link/").json()["link"]
    assert "common" in follow(link, "password1234").content.decode()
    browser = Client()
    assert follow(link, PASSWORD, browser).headers["Location"] == "/accounts/login/"
    assert browser.get("/").status_code == 302
    assert "This link is over" in follow(link, "another-horse-entirely").content.decode()
    assert User.objects.get(username="nora").check_password(PASSWORD)
    assert Audit.objects.filter(action="user.password_set", actor="nora").count() == 1


def test_a_link_of_a_closed_account_is_over(admin: Caller) -> None:
    admin.post("accounts/", NEW)
    link = admin.post("accounts/nora/link/").json()["link"]
    admin.ask("DELETE", "accounts/nora/")
    assert "This link is over" in follow(link, PASSWORD).content.decode()
    assert admin.post("accounts/nora/link/").status_code == 400


@pytest.mark.parametrize("who", ["viewer", "operator", "outsider"])
def test_your_permissions_name_what_you_may_and_who_may_more(browser_of: Callable[[str], Client], who: str) -> None:
    text = browser_of(who).get("/you/").content.decode()
    assert "Your permissions" in text
    assert "disabled" in text
    assert "For the role admin" in text


def test_the_page_of_an_account_makes_tokens_and_links_and_changes_it(browser_of: Callable[[str], Client]) -> None:
    browser = browser_of("admin")
    browser.post("/people/new/", {"name": "nora", "role": "viewer", "patterns": "orders.#\nbills.#"})
    assert Access.objects.get(user__username="nora").address_patterns == ["orders.#", "bills.#"]
    made = browser.post("/people/nora/token/", {"label": "t", "scopes": ["read"], "expires_in_days": "3"})
    assert "pa_" in made.content.decode()
    assert "/accounts/password/set/" in browser.post("/people/nora/link/").content.decode()
    browser.post("/people/nora/", {"name": "nora", "role": "operator", "patterns": "orders.#"})
    assert Access.objects.get(user__username="nora").role == "operator"
    [token] = ApiToken.objects.filter(user__username="nora")
    browser.post("/people/nora/change/revoke/", {"of": str(token.id)})
    token.refresh_from_db()
    assert token.revoked_at is not None
    browser.post("/people/nora/change/close/")
    assert not User.objects.get(username="nora").is_active
    browser.post("/people/nora/change/reopen/")
    assert User.objects.get(username="nora").is_active
    assert browser.post("/people/admin/change/close/").status_code == 409
    assert browser.post("/people/nora/change/erase/").status_code == 404


def test_one_ends_one_s_own_session_and_nobody_else_s(browser_of: Callable[[str], Client], admin: Caller) -> None:
    admin.post("accounts/", NEW | {"password": PASSWORD})
    nora, again = logged_in("nora"), logged_in("nora")
    keys = [row["key"] for row in admin.get("accounts/nora/sessions/").json()["results"]]
    for key in keys:
        assert browser_of("viewer").post("/you/end/", {"of": key}).status_code == 404
    assert (nora.get("/").status_code, again.get("/").status_code) == (200, 200)
    assert nora.post("/you/end/", {"of": keys[0]}).status_code == 302
    assert sorted([nora.get("/").status_code, again.get("/").status_code]) == [200, 302]
