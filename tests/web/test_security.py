"""Security at the API: CSRF, cookies, headers, and the deployment check."""

import os
import subprocess
import sys

import pytest
from django.contrib.auth.models import User
from django.test import Client

from poisonadmin.core.domain.access import Role
from tests.fixtures.api import Caller, make_user, take_dead

WHY = {"reason": "because"}


@pytest.fixture
def browser(db: None) -> Client:
    """Return a logged-in browser that checks CSRF as a real one is checked."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("kim", Role.ADMIN, []))
    return client


def test_a_session_reads_without_and_acts_only_with_the_csrf_token(browser: Client) -> None:
    path = f"/api/v1/messages/{take_dead()}/fail/"
    assert browser.get("/api/v1/messages/").status_code == 200
    refused = browser.post(path, WHY, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")
    browser.get("/api/v1/docs/")
    token = browser.cookies["csrftoken"].value
    done = browser.post(path, WHY, content_type="application/json", headers={"X-CSRFToken": token})
    assert done.status_code == 200


def test_a_form_of_another_site_is_refused(browser: Client) -> None:
    path = f"/api/v1/messages/{take_dead()}/fail/"
    answer = browser.post(path, {"reason": "x"}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


def test_a_bearer_token_beats_a_session(browser: Client, viewer: Caller) -> None:
    path = f"/api/v1/messages/{take_dead()}/fail/"
    credentials = {"Authorization": f"Bearer {viewer.token}"}
    assert browser.post(path, WHY, content_type="application/json", headers=credentials).status_code == 403


def test_no_origin_is_invited(admin: Caller) -> None:
    answer = admin.get("messages/", Origin="https://evil.example")
    assert not any(name.lower().startswith("access-control") for name in answer.headers)


def test_every_answer_says_how_a_browser_must_treat_it(admin: Caller) -> None:
    for path in ("messages/", "nothing/", "schema/"):
        answer = admin.get(path)
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert admin.get("messages/")["Cache-Control"] == "no-store"


def test_cookies_are_kept_from_scripts_and_other_sites(browser: Client) -> None:
    browser.get("/api/v1/docs/")
    assert browser.cookies["csrftoken"]["samesite"] == "Lax"


def test_behind_tls_no_other_host_of_the_domain_can_set_or_read_a_cookie(tmp_path: object) -> None:
    program = """
import django; django.setup()
from django.conf import settings
from django.test import Client
answer = Client().get("/accounts/login/", secure=True, headers={"Host": "localhost", "X-Forwarded-Proto": "https"})
names = [settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, settings.KNOWN_BROWSER_COOKIE_NAME]
print(*names, *answer.cookies.values(), settings.SESSION_COOKIE_DOMAIN, settings.CSRF_COOKIE_DOMAIN, sep="\\n")
"""
    environment = os.environ | {"POISONADMIN_BEHIND_TLS": "1", "DJANGO_SETTINGS_MODULE": "poisonadmin.settings"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=environment, capture_output=True, text=True
    )
    *names, cookie, session_domain, csrf_domain = done.stdout.splitlines()
    assert names == ["__Host-sessionid", "__Host-csrftoken", "__Host-known_browser"], done.stderr
    assert cookie.startswith("Set-Cookie: __Host-csrftoken=")
    assert "; Path=/" in cookie
    assert "; Secure" in cookie
    assert "Domain" not in cookie
    assert (session_domain, csrf_domain) == ("None", "None")


def test_the_docs_page_needs_a_login(db: None) -> None:
    answer = Client().get("/api/v1/docs/")
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/accounts/login/")


def test_a_deactivated_user_s_session_ends(browser: Client) -> None:
    User.objects.update(is_active=False)
    assert browser.get("/api/v1/messages/").status_code == 401


def test_the_deployment_check_is_clean_behind_tls(tmp_path: object) -> None:
    environment = os.environ | {
        "POISONADMIN_BEHIND_TLS": "1",
        "POISONADMIN_SECRET_KEY": "a-long-k3y-of-many-Letters" * 3,
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "System check identified no issues (0 silenced)."), done.stderr
