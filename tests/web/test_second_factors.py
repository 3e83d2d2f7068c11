"""Second factors: asked for at every login, required by role, and skipped by no other way in."""

import re
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from poisonadmin.core.domain.access import Role
from poisonadmin.environment import Environment
from poisonadmin.store.models.access import Audit
from tests.fixtures.api import Caller
from tests.fixtures.pages import PASSWORD, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("page_settings")]
LOGIN, FACTOR = "/accounts/login/", "/accounts/2fa/authenticate/"
SECRET = generate_totp_secret()


def code_now(secret: str = SECRET) -> str:
    """Return the code that an app shows now."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30))


@pytest.fixture
def vera(db: None) -> User:
    """Return a viewer whose app shows codes."""
    user = make_user("vera", Role.VIEWER)
    TOTP.activate(user, SECRET)
    RecoveryCodes.activate(user)
    return user


def with_password(browser: Client, name: str = "vera", password: str = PASSWORD) -> Any:
    return browser.post(LOGIN, {"login": name, "password": password})


def is_in(browser: Client) -> bool:
    """Return whether pages and API take the session."""
    page, api = browser.get("/").status_code, browser.get("/api/v1/me/").status_code
    assert (page == 200) == (api == 200)
    return page == 200


def test_a_password_alone_is_no_login_and_the_code_makes_it_one(vera: User) -> None:
    browser = Client()
    assert with_password(browser).headers["Location"] == FACTOR
    assert not is_in(browser)
    assert "_auth_user_id" not in browser.session
    browser.post(FACTOR, {"code": "000000"})
    assert not is_in(browser)
    assert Audit.objects.filter(action="user.login_failed", object_id="vera").count() == 1
    assert not Audit.objects.filter(action="user.logged_in").exists()
    browser.post(FACTOR, {"code": code_now()})
    assert is_in(browser)


def test_a_code_is_taken_once_whichever_process_it_comes_to(vera: User) -> None:
    with time_machine.travel(1_900_000_000, tick=False):
        for expected in (True, False):
            browser = Client()
            with_password(browser)
            browser.post(FACTOR, {"code": code_now()})
            assert is_in(browser) is expected
            cache.clear()  # another process does not share it
    with time_machine.travel(1_900_000_031, tick=False):
        browser.post(FACTOR, {"code": code_now()})
        assert is_in(browser)


def test_wrong_codes_are_throttled_as_wrong_passwords_are(vera: User) -> None:
    browser = Client()
    with_password(browser)
    answers = [browser.post(FACTOR, {"code": f"00000{n}"}).status_code for n in range(7)]
    assert 429 in answers
    browser.post(FACTOR, {"code": code_now()})
    assert not is_in(browser)
    assert with_password(Client()).status_code == 429


def test_a_recovery_code_lets_in_once(vera: User) -> None:
    code = RecoveryCodes(Authenticator.objects.get(type="recovery_codes")).get_unused_codes()[0]
    for expected in (True, False):
        browser = Client()
        with_password(browser)
        browser.post(FACTOR, {"code": code})
        assert is_in(browser) is expected


def test_neither_a_known_browser_nor_a_cookie_of_trust_skips_it(vera: User) -> None:
    browser = Client()
    with_password(browser)
    browser.post(FACTOR, {"code": code_now()})
    assert "known_browser" in browser.cookies
    browser.post("/accounts/logout/")
    browser.cookies["mfa_trusted"] = "x"
    assert with_password(browser).headers["Location"] == FACTOR
    assert not is_in(browser)
    assert browser.get("/accounts/2fa/trust/").status_code == 404


def test_a_new_password_does_not_skip_it(vera: User, admin: Caller) -> None:
    link = admin.post("accounts/vera/link/").json()["link"].removeprefix("http://testserver")
    browser = Client()
    form = browser.get(link, follow=True)
    new = "another-horse-entirely"
    browser.post(form.request["PATH_INFO"], {"new_password1": new, "new_password2": new})
    assert not is_in(browser)
    assert with_password(browser, password=new).headers["Location"] == FACTOR
    assert not is_in(browser)


def test_secrets_are_stored_encrypted_and_useless_under_another_key(vera: User, settings: Settings) -> None:
    assert SECRET not in str(Authenticator.objects.values_list("data", flat=True))
    browser = Client()
    settings.SECRET_KEY = "x" * 40
    with_password(browser)
    assert browser.post(FACTOR, {"code": code_now()}).status_code == 200
    assert not is_in(browser)


@pytest.fixture
def required(settings: Settings) -> None:
    """Have operators need a second factor."""
    settings.MFA_ROLES = [Role.OPERATOR]


@pytest.mark.django_db(transaction=True)
def test_a_role_that_needs_one_gets_nowhere_before_it_is_set_up(required: None) -> None:
    make_user("otto", Role.OPERATOR)
    make_user("vic", Role.VIEWER)
    browser, other, viewer = Client(), Client(), Client()
    with_password(viewer, "vic")
    assert is_in(viewer)
    with_password(browser, "otto")
    with_password(other, "otto")
    assert browser.get("/triage/").headers["Location"] == "/accounts/2fa/"
    assert browser.get("/api/v1/messages/").json()["code"] == "second_factor_missing"
    assert browser.get("/metrics", HTTP_X_FORWARDED_FOR="203.0.113.7").status_code == 403
    assert browser.post("/you/end/", {"of": "x"}).headers["Location"] == "/accounts/2fa/"
    set_up = "/accounts/2fa/totp/activate/"
    confirm = browser.get(set_up).headers["Location"]
    browser.post(confirm, {"password": PASSWORD})
    page = browser.get(set_up).content.decode()
    secret = re.findall(r"<code[^>]*>([A-Z2-7]{32})</code>", page)[0]
    browser.post(set_up, {"code": code_now(secret)})
    assert is_in(browser)
    assert not is_in(other), "it began without a second factor"
    added = Audit.objects.filter(action="user.second_factor_added").values_list("details__type", flat=True)
    assert sorted(added) == ["recovery_codes", "totp"]
    browser.post("/accounts/2fa/totp/deactivate/")
    assert not is_in(browser)
    assert Audit.objects.filter(action="user.second_factor_removed").exists()


def test_a_session_from_before_the_setting_is_refused_and_a_token_is_not(settings: Settings, operator: Caller) -> None:
    make_user("otto", Role.OPERATOR)
    browser = Client()
    with_password(browser, "otto")
    assert is_in(browser)
    settings.MFA_ROLES = [Role.OPERATOR]
    assert not is_in(browser)
    assert operator.get("me/").status_code == 200


def test_another_administrator_resets_it_and_nobody_his_own(vera: User, admin: Caller) -> None:
    browser = Client()
    with_password(browser)
    browser.post(FACTOR, {"code": code_now()})
    assert admin.get("accounts/vera/").json()["second_factors"] == ["totp"]
    assert admin.ask("DELETE", "accounts/vera/second-factors/").status_code == 204
    assert not is_in(browser)
    with_password(browser)
    assert is_in(browser)
    assert Audit.objects.get(action="user.second_factors_reset").details == {"types": ["totp"]}
    assert admin.ask("DELETE", "accounts/admin/second-factors/").status_code == 403
    call_command("user", "reset-second-factors", "admin")
    assert Audit.objects.filter(action="user.second_factors_reset", object_id="admin").exists()


def test_what_is_no_role_stops_the_start() -> None:
    assert Environment({"POISONADMIN_MFA_ROLES": "admin, reviewer"}).roles("POISONADMIN_MFA_ROLES") == [
        "admin",
        "reviewer",
    ]
    with pytest.raises(Exception, match="must be roles of viewer"):
        Environment({"POISONADMIN_MFA_ROLES": "root"}).roles("POISONADMIN_MFA_ROLES")
