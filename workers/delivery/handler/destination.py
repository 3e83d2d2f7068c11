"""A handler destination as a task uses it, and the user that its sandboxes run as.

Where the worker is root that is another one, so that a handler reads no secret.
"""

import os
import shutil
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
    SANDBOX_USER,
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
    """A user of the operating system, its group, and an interpreter that it can read."""

    name: str
    user_id: int
    group_id: int
    interpreter: str


def choose_account(environment: Mapping[str, str], roots: Sequence[str]) -> SandboxAccount | None:
    """Return whom sandboxes are to run as that import from `roots`; None: as the worker, where that is wanted.

    By default that is `nobody` where the worker is root, who can read every secret. Errors: `UnusableSandboxUser` where
    that user, or the one that is named, cannot read what a sandbox needs, and where nobody is named and the worker
    cannot become another user.
    """
    named = environment.get(SANDBOX_USER, "").strip()
    if not named and os.geteuid():
        raise UnusableSandboxUser(
            "this worker is not root, so handlers would run as its own user and could read its secrets:"
            f" name that user in {SANDBOX_USER} where this is wanted"
        )
    entry = sandbox_user({SANDBOX_USER: named or DEFAULT_USER})
    if entry is None or entry.pw_uid == os.geteuid():
        return None
    return _usable(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(roots))


@lru_cache  # which keeps no error: what fails now may succeed with the next claim
def _usable(name: str, user_id: int, group_id: int, roots: tuple[str, ...]) -> SandboxAccount:
    """Return the user with the first interpreter by which it can read what a sandbox needs.

    That is the running one, which may be in root's home, or another one of the same version: handlers bring libraries
    that were made for it.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    others = (shutil.which(version, path=directory) for directory in ENVIRONMENT["PATH"].split(":"))
    refusals: list[UnusableSandboxUser] = []
    for interpreter in dict.fromkeys([sys.executable, *filter(None, others)]):
        account = SandboxAccount(name, user_id, group_id, interpreter)
        try:
            _try(account, roots)
        except UnusableSandboxUser as error:
            refusals.append(error)
        else:
            return account
    raise UnusableSandboxUser(
        f"{refusals[0]}. Let {name} read them, or name another user in {SANDBOX_USER}; root reads every secret"
    )


def _try(account: SandboxAccount, roots: tuple[str, ...]) -> None:
    """Start a process of this user that reads what a sandbox needs. Errors: `UnusableSandboxUser`."""
    command = [account.interpreter, "-I", "-S", "-B", "-c", _TRIAL, CHILD, journal.__file__, *roots]
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
        account = choose_account(os.environ, roots)
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
