"""`manage.py user create`: where the password comes from."""

import io
import sys
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from poisonadmin.core.domain.access import Role
from poisonadmin.store.models.access import Access
from tests.fixtures.api import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-battery"
MODULE = "poisonadmin.store.management.commands.user.getpass"


class Terminal(io.StringIO):
    """Standard input that a person types at."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def typing(monkeypatch: pytest.MonkeyPatch, *typed: str) -> None:
    answers: Iterator[str] = iter(typed)
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(MODULE, lambda _: next(answers))


def test_a_script_sends_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PASSWORD}\n"))
    call_command("user", "create", "pat", "--role", "operator")
    assert User.objects.get(username="pat").check_password(PASSWORD)
    assert Access.objects.get().role == "operator"


def test_a_person_is_asked_for_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    typing(monkeypatch, PASSWORD, PASSWORD)
    call_command("user", "create", "pat", "--role", "operator")
    assert User.objects.get(username="pat").check_password(PASSWORD)
    typing(monkeypatch, PASSWORD, "another")
    with pytest.raises(CommandError, match="differ"):
        call_command("user", "create", "sam", "--role", "viewer")
    assert not User.objects.filter(username="sam").exists()


def test_the_last_administrator_is_neither_closed_nor_given_another_role() -> None:
    make_user("ada", Role.ADMIN, [])
    for command in (["deactivate", "ada"], ["create", "ada", "--role", "viewer"]):
        with pytest.raises(CommandError, match="last administrator"):
            call_command("user", *command)
    make_user("bea", Role.ADMIN, [])
    call_command("user", "create", "ada", "--role", "viewer")
    assert Access.objects.get(user__username="ada").role == "viewer"


def test_the_help_says_where_it_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["--help"], ["create", "--help"]):
        with pytest.raises(SystemExit):
            call_command("user", *command)
        assert "first line of standard input" in " ".join(capsys.readouterr().out.split())
