"""`manage.py user create`: where the password comes from."""

import io
import sys
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from poisonadmin.store.models.access import Access

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


def test_the_help_says_where_it_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["--help"], ["create", "--help"]):
        with pytest.raises(SystemExit):
            call_command("user", *command)
        assert "first line of standard input" in " ".join(capsys.readouterr().out.split())
