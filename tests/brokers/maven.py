"""Fetches what tests need from Maven Central, once: it is kept in a cache directory of the user, outside git."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

# Named here, so that the same plugin does the work whatever Maven's version.
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


class MavenMissing(Exception):
    """Raised when something cannot be fetched: there is no Maven, or it failed; the text says which."""


def maven(goal: str, *options: str, into: Path) -> None:
    """Let a goal of the dependency plugin fill a directory from where the settings say; raise `MavenMissing`."""
    if not shutil.which("mvn"):
        raise MavenMissing("These tests need Maven and Java 17 or newer: install the package `maven`.")
    command = ["mvn", "--batch-mode", "--quiet", f"{_PLUGIN}:{goal}", *options, f"-DoutputDirectory={into}"]
    # The plugin leaves marks where it is started.
    done = subprocess.run(
        command, cwd=into.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise MavenMissing(f"Maven failed at {goal}:\n{done.stdout[-2000:]}")


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory `name` of the cache, filled by `make` when it is not there yet; it is there whole or not."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "poisonadmin-tests"
    found = kept / name
    if not found.exists():
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept, prefix=f".{name}-") as making:
            made = Path(making) / "made"
            made.mkdir()
            make(made)
            # Another run may have been faster: its result is as good.
            with contextlib.suppress(OSError):
                made.rename(found)
    return found
