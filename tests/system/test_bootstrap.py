"""The first user and the first token."""

import io
import stat
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import RequestFactory

from poisonadmin.core.domain.access import Role
from poisonadmin.store.models.access import Access, ApiToken
from poisonadmin.system.commands.accounts import bootstrap
from tests.fixtures.api import Caller

pytestmark = pytest.mark.django_db


def test_the_first_start_makes_an_admin_and_a_token_with_every_scope(tmp_path: Path) -> None:
    made = bootstrap(tmp_path)
    assert made is not None
    assert stat.S_IMODE(made.token_file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["admin-token"]
    assert authenticate(RequestFactory().post("/"), username="admin", password=made.password)
    caller = Caller(made.token_file.read_text().strip())
    assert caller.post("policies/", {"match": "a", "settings": {}}).status_code == 201


def test_the_second_start_does_nothing(tmp_path: Path) -> None:
    bootstrap(tmp_path)
    before = (tmp_path / "admin-token").read_text()
    assert bootstrap(tmp_path) is None
    assert (tmp_path / "admin-token").read_text() == before
    assert (User.objects.count(), ApiToken.objects.count()) == (1, 1)


def test_a_token_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        bootstrap(tmp_path / "file")
    assert not User.objects.exists()


def test_the_command_takes_a_password_and_does_not_repeat_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    call_command("bootstrap", "--password-stdin")
    assert "correct horse" not in capsys.readouterr().out
    assert authenticate(RequestFactory().post("/"), username="admin", password="correct horse battery")
    call_command("bootstrap")
    assert "The user admin exists" in capsys.readouterr().out


def test_users_are_made_with_a_role_and_a_decent_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("password\n"))
    with pytest.raises(CommandError, match="too short"):
        call_command("user", "create", "kim", "--role", "operator")
    assert not User.objects.exists()
    monkeypatch.setattr("sys.stdin", io.StringIO("a rather long secret\n"))
    call_command("user", "create", "kim", "--role", "operator", "--pattern", "orders.#")
    call_command("user", "create", "kim", "--role", "viewer")
    access = Access.objects.get()
    assert (access.role, access.address_patterns) == (Role.VIEWER, [])
