"""The sandboxes of a worker that is root run as another user, who can read no secret and start few processes."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.whole_system.installation import until
from tests.workers.sandboxes import HANDLERS, handle
from workers.delivery.deliveries import ConfiguredDestination
from workers.delivery.handler.destination import (
    ENVIRONMENT,
    SandboxAccount,
    UnusableSandboxUser,
    _usable,
    choose_account,
    parse_handler_config,
)
from workers.delivery.handler.sandbox.child import MAX_PROCESSES

NOBODY = pwd.getpwnam("nobody")
IS_ROOT = os.geteuid() == 0
OWN = {"POISONADMIN_SANDBOX_USER": pwd.getpwuid(os.geteuid()).pw_name}


@pytest.fixture
def roots() -> Iterator[list[str]]:
    """Handlers where every user can read them."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        shutil.copytree(HANDLERS, f"{directory}/handlers")
        yield [f"{directory}/handlers"]


@pytest.fixture
def account(roots: list[str]) -> SandboxAccount | None:
    """Whom sandboxes run as here; an interpreter in root's home is no use to anybody else, but there is another."""
    found = choose_account({} if IS_ROOT else OWN, roots)
    assert (found is not None) == IS_ROOT, "sandboxes run as another user where, and only where, this is root"
    return found


def test_a_sandbox_of_root_can_read_no_secret(roots: list[str], account: SandboxAccount | None, tmp_path: Path) -> None:
    secret = tmp_path / "database-url"
    secret.write_text("canary")
    secret.chmod(0o600)
    row = handle([f"spy {secret}"], tmp_path, roots=tuple(roots), account=account).only
    said = (row.output or b"").decode()
    if IS_ROOT:
        assert said.startswith(f"{NOBODY.pw_uid} {NOBODY.pw_gid} []\n")
        assert (said.count("refused"), said.count("read ")) == (2, 0)
    else:  # what remains where nobody else can be had (docs/operate/handlers.md)
        assert (said.count("refused"), said.count("read ")) == (0, 2)


def test_its_journal_is_out_of_its_reach_but_for_the_map(
    roots: list[str], account: SandboxAccount | None, tmp_path: Path
) -> None:
    deeds = ["ok", "wreck cut", "wreck memory", "ok"]
    handled = handle(deeds, tmp_path / "journals", roots=tuple(roots), account=account, concurrency=1)
    expected = "failed" if IS_ROOT else "crashed"
    assert handled.outcomes() == {1: "delivered", 2: expected, 3: "crashed", 4: "delivered"}


def test_it_starts_no_more_processes_than_it_may(
    roots: list[str], account: SandboxAccount | None, tmp_path: Path
) -> None:
    if account is None:  # the kernel counts by user: the limit would be that of everything the worker's user runs
        return
    before = _number_of_processes(account)
    limits = {"timeout_ms": 60_000, "cpu_seconds": 60.0}
    row = handle(["fork_on"], tmp_path, roots=tuple(roots), account=account, **limits).only
    assert row.outcome == "delivered"
    assert 0 < int(row.output or b"") < MAX_PROCESSES
    until(lambda: _number_of_processes(account) <= before)


def test_what_it_leaves_behind_ends_with_it(roots: list[str], account: SandboxAccount | None, tmp_path: Path) -> None:
    """Root may lack CAP_SYS_RESOURCE, as in most containers: it then reads the mark of another user's process."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        note = Path(directory) / "note"
        row = handle([f"escape {note} ok"], tmp_path / "journals", roots=tuple(roots), account=account).only
        assert row.outcome == "delivered"
        left = int(note.read_text())
        until(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE, 5)


def _number_of_processes(account: SandboxAccount) -> int:
    return sum(process.info["uids"].real == account.user_id for process in psutil.process_iter(["uids"]))


def test_a_user_that_is_named_must_do(roots: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"POISONADMIN_SANDBOX_USER": "nobody"}
    hidden = tmp_path / "handlers"
    shutil.copytree(HANDLERS, hidden)
    (tmp_path / "handlers").chmod(0o700)
    with pytest.raises(UnusableSandboxUser, match="cannot run as nobody"):
        choose_account(named, [str(hidden)])
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(hidden))
    monkeypatch.setenv("POISONADMIN_SANDBOX_USER", "nobody")
    assert "cannot run as nobody" in str(
        parse_handler_config(ConfiguredDestination(config={"callable": "deadly:handle"})).broken
    )
    assert choose_account(OWN, [str(hidden)]) is None


def test_a_worker_that_cannot_become_another_user_runs_no_handler_unless_its_own_user_is_named(
    roots: list[str],
) -> None:
    user = pwd.getpwuid(os.geteuid() or NOBODY.pw_uid)
    try:
        os.seteuid(user.pw_uid)
        with pytest.raises(UnusableSandboxUser, match="name that user in POISONADMIN_SANDBOX_USER"):
            choose_account({}, roots)
        assert choose_account({"POISONADMIN_SANDBOX_USER": user.pw_name}, roots) is None
    finally:
        os.seteuid(os.getuid())


def test_root_runs_no_handler_whose_files_are_out_of_reach_of_nobody_unless_root_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "handlers"
    shutil.copytree(HANDLERS, hidden)
    hidden.chmod(0o700)
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(hidden))
    monkeypatch.delenv("POISONADMIN_SANDBOX_USER", raising=False)
    row = ConfiguredDestination(config={"callable": "deadly:handle"})
    wanted = "name another user in" if IS_ROOT else "name that user in"
    assert f"{wanted} POISONADMIN_SANDBOX_USER" in str(parse_handler_config(row).broken)
    monkeypatch.setenv(*next(iter(OWN.items())))
    assert (parse_handler_config(row).broken, parse_handler_config(row).account) == (None, None)


def test_an_interpreter_that_nobody_can_read_is_found_beside_one_that_nobody_can(
    roots: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not IS_ROOT:  # whoever is not root runs sandboxes as itself, with its own interpreter
        return
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(closed / "python"))
    _usable.cache_clear()
    found = choose_account({}, roots)
    assert found is not None
    assert not found.interpreter.startswith(str(tmp_path))
    handled = handle(["spy /etc/shadow"], tmp_path / "journals", roots=tuple(roots), account=found)
    assert b"refused" in (handled.only.output or b"")
    monkeypatch.setitem(ENVIRONMENT, "PATH", str(closed))
    _usable.cache_clear()
    with pytest.raises(UnusableSandboxUser, match="cannot run as nobody"):
        choose_account({}, roots)
    _usable.cache_clear()
