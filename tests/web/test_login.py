"""Logging in and out, the password, and what is shown when something goes wrong."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from poisonadmin.core.domain.access import Role
from poisonadmin.web.pages.errors import server_error
from tests.fixtures.pages import PASSWORD, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("page_settings")]


@pytest.fixture
def viewer() -> User:
    return make_user("vera", Role.VIEWER)


def test_a_user_logs_in_and_comes_to_the_page_that_was_asked_for(viewer: User) -> None:
    client = Client()
    login = client.get("/triage/?state=NDLV").headers["Location"]
    answer = client.post(login, {"login": "vera", "password": PASSWORD})
    assert answer.headers["Location"] == "/triage/?state=NDLV"
    assert client.get("/").status_code == 200


def test_a_wrong_password_says_so_and_is_throttled(viewer: User) -> None:
    client = Client()
    answer = client.post("/accounts/login/", {"login": "vera", "password": "wrong"})
    assert "not correct" in answer.content.decode()
    for _ in range(9):
        client.post("/accounts/login/", {"login": "vera", "password": "wrong"})
    answer = client.post("/accounts/login/", {"login": "vera", "password": PASSWORD})
    assert "Too many failed" in answer.content.decode()
    assert "_auth_user_id" not in client.session


def test_logging_out_needs_a_form(viewer: User) -> None:
    client = Client()
    client.force_login(viewer, "allauth.account.auth_backends.AuthenticationBackend")
    assert client.get("/accounts/logout/").status_code == 200
    assert client.get("/").status_code == 200
    client.post("/accounts/logout/")
    assert client.get("/").status_code == 302


def test_the_password_is_changed_with_the_old_one(viewer: User) -> None:
    client = Client()
    client.force_login(viewer, "allauth.account.auth_backends.AuthenticationBackend")
    new = "another-horse-entirely"
    wrong = client.post("/accounts/password/change/", {"oldpassword": "no", "password1": new, "password2": new})
    assert "current password" in wrong.content.decode()
    client.post("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    viewer.refresh_from_db()
    assert viewer.check_password(new)


def test_nobody_can_sign_up() -> None:
    client = Client()
    fields = {"username": "new", "password1": PASSWORD, "password2": PASSWORD}
    assert "made by administrators" in client.get("/accounts/signup/").content.decode()
    client.post("/accounts/signup/", fields)
    assert not User.objects.filter(username="new").exists()


def test_error_pages_say_what_did_not_happen_and_carry_the_request_id(operator_browser: Client) -> None:
    answer = operator_browser.get("/messages/999999/")
    text = answer.content.decode()
    assert answer.status_code == 404
    assert "Nothing was changed." in text
    assert re.search(r"request <code class=\"copyable\">[0-9a-f-]{36}</code>", text)
    assert operator_browser.get("/no/such/page/").status_code == 404


def test_the_page_of_a_server_error_needs_nothing_that_may_be_broken(rf) -> None:  # type: ignore[no-untyped-def]
    answer = server_error(rf.get("/"))
    assert answer.status_code == 500
    assert "It was not carried out in part" in answer.content.decode()


def test_pages_are_not_kept_by_shared_computers(operator_browser: Client) -> None:
    for path in ("/", "/accounts/password/change/"):
        assert "no-store" in operator_browser.get(path).headers["Cache-Control"]
