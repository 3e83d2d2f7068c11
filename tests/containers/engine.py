"""Podman as Debian packages it, run by root, and what it needs on this machine."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PACKAGES = "podman runc buildah debootstrap netavark aardvark-dns iptables catatonit"
# runc asks for more than the limits of a machine allow, unless told how much.
_CONFIGURATION = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
"""


class Missing(Exception):
    """Something without which nothing can be tried; the text says what to do."""


class Failed(Exception):
    """A command that should have succeeded; the text holds the end of its output."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended, and what it printed."""

    succeeded: bool
    output: str


def run(*command: object, check: bool = True, at: Path | None = None, timeout_seconds: float = 900) -> Ended:
    """Run a command to its end. Errors: `Failed` if it fails and `check` is set."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=at, timeout=timeout_seconds, capture_output=True, text=True, errors="replace")
    if check and done.returncode:
        raise Failed(f"{' '.join(words)[:200]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return Ended(done.returncode == 0, done.stdout.strip())


def podman(*command: object, check: bool = True, timeout_seconds: float = 900) -> Ended:
    """Run a command of podman."""
    return run("podman", *command, check=check, timeout_seconds=timeout_seconds)


def find_engine(directory: Path) -> None:
    """Have all that follows use podman with runc; raise `Missing`."""
    if os.geteuid():
        raise Missing("Containers are tried by root.")
    if missing := [name for name in ("podman", "runc", "debootstrap", "iptables") if shutil.which(name) is None]:
        raise Missing(f"{', '.join(missing)}: not found. apt-get install --no-install-recommends {PACKAGES}")
    (directory / "containers.conf").write_text(_CONFIGURATION)
    os.environ["CONTAINERS_CONF"] = str(directory / "containers.conf")
