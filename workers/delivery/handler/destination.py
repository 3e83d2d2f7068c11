"""A handler destination as a task uses it, and the user that its sandboxes run as.

Where the worker is root that is another one, so that a handler reads no secret.
"""

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from poisonadmin.delivery.domain import journal
from poisonadmin.destinations.domain.handler_config import (
    DEFAULTS,
    HANDLER_PATH,
    UnknownSandboxUser,
    UnusableHandlerPath,
    handler_directories,
    sandbox_user,
    validate_handler_config,
)
from workers.delivery.deliveries import ConfiguredDestination, TaskDestination

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC"}
CHILD = str(Path(__file__).parent / "sandbox" / "child.py")
DEFAULT_USER = "nobody"
_TRIAL_SECONDS = 30.0
_TRIAL = """
import ctypes, json, os, sys
for path in sys.argv[1:]:
    os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
"""


class UnusableSandboxUser(ValueError):
    """Raised when sandboxes cannot run as a user: the one that POISONADMIN_SANDBOX_USER names, or the default one."""


@dataclass(frozen=True)
class SandboxAccount:
    """A user of the operating system and its group."""

    name: str
    user_id: int
    group_id: int


@dataclass(frozen=True)
class Choice:
    """Whom sandboxes run as; no account: as the worker. `why_root`: why a worker that is root finds nobody else."""

    account: SandboxAccount | None = None
    why_root: str | None = None


def choose_account(environment: Mapping[str, str], roots: Sequence[str]) -> Choice:
    """Return whom sandboxes are to run as that import from `roots`. Errors: `UnusableSandboxUser`.

    A user that is named must do. By default it is `nobody` where the worker is root and `nobody` can read what a
    sandbox needs, which is not so for an interpreter in root's home.
    """
    named = sandbox_user(environment)
    if named is None and os.geteuid() != 0:
        return Choice()
    entry = named or _default()
    if entry is None:
        return Choice(why_root=f"there is no user {DEFAULT_USER}")
    if entry.pw_uid == os.geteuid():
        return Choice()
    account = SandboxAccount(entry.pw_name, entry.pw_uid, entry.pw_gid)
    try:
        _try(account, sys.executable, tuple(roots))
    except UnusableSandboxUser as error:
        if named is None:
            return Choice(why_root=str(error))
        raise
    return Choice(account)


def _default() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(DEFAULT_USER)
    except KeyError:
        return None


@lru_cache  # which keeps no error: what fails now may succeed with the next claim
def _try(account: SandboxAccount, interpreter: str, roots: tuple[str, ...]) -> None:
    """Start a process of this user that reads what a sandbox needs. Errors: `UnusableSandboxUser`."""
    command = [interpreter, "-I", "-S", "-B", "-c", _TRIAL, CHILD, journal.__file__, *roots]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=ENVIRONMENT,
            cwd="/",
            user=account.user_id,
            group=account.group_id,
            extra_groups=[],
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnusableSandboxUser(f"a sandbox cannot run as {account.name}: {error}") from None
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise UnusableSandboxUser(f"a sandbox cannot run as {account.name}: {errors[-1]}")


@dataclass(frozen=True)
class HandlerDestination(TaskDestination):
    """A handler, and the limits of its sandboxes. These hold for one message; `concurrency`: sandboxes in this task.

    `roots`: the directories that it may import from. `account`: whom its sandboxes run as, None for the worker's own
    user.
    """

    callable: str = ""
    memory_mb: int = DEFAULTS["memory_mb"]
    cpu_seconds: float = DEFAULTS["cpu_seconds"]
    timeout_ms: int = DEFAULTS["timeout_ms"]
    concurrency: int = DEFAULTS["concurrency"]
    roots: tuple[str, ...] = ()
    account: SandboxAccount | None = None


def parse_handler_config(row: ConfiguredDestination) -> HandlerDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used."""
    wanted = DEFAULTS | validate_handler_config(row.config)
    roots: tuple[str, ...] = ()
    account, broken = None, None
    try:
        roots = tuple(str(directory) for directory in handler_directories(os.environ))  # links followed
        account = choose_account(os.environ, roots).account
    except (UnusableHandlerPath, UnknownSandboxUser, UnusableSandboxUser) as error:
        broken = str(error)
    return HandlerDestination(
        row.id,
        row.name,
        owner=row.owner,
        callable=wanted["callable"],
        memory_mb=wanted["memory_mb"],
        cpu_seconds=wanted["cpu_seconds"],
        timeout_ms=wanted["timeout_ms"],
        concurrency=wanted["concurrency"] if row.slots is None else row.slots,
        roots=roots,
        account=account,
        broken=broken if roots or broken else f"{HANDLER_PATH} is not set where this is delivered",
    )
