"""The kinds of installation that faults need: a plain one, one whose clock can be stepped, one on a small disk."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.system.installation import Installation

SMALL_DISK_MEGABYTES = 700
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


class CannotStage(Exception):
    """Raised when this machine lacks what a kind of installation needs; says what."""


@contextlib.contextmanager
def staged(stage: str) -> Iterator[Installation]:
    """Run an installation of the kind meanwhile, in a directory that the database's own user can enter."""
    top = Path(tempfile.mkdtemp(prefix="poisonadmin-faults-"))
    top.chmod(0o755)
    home = top / "home"
    home.mkdir(mode=0o755)
    try:
        with _prepared(stage, home) as environment:
            installation = Installation(home, **environment)
            try:
                installation.until_ready()
                yield installation
            finally:
                installation.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)


@contextlib.contextmanager
def _prepared(stage: str, home: Path) -> Iterator[dict[str, str]]:
    if stage == "stepping":
        clock_file(home).write_text("+0\n")
        yield {
            "LD_PRELOAD": str(_faketime()),
            "FAKETIME_TIMESTAMP_FILE": str(clock_file(home)),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
    elif stage == "small-disk":
        with _mounted(home / "postgres"):
            yield {}
    else:
        yield {}


def clock_file(home: Path) -> Path:
    """Return the file whose content, in seconds, is how far the clock is off on the stage `stepping`."""
    return home / "clock"


def _faketime() -> Path:
    """Return libfaketime, installed by apt where it is missing and apt is there."""
    for attempt in range(2):
        for directory in map(Path, _LIBRARIES):
            if found := next(directory.glob("**/libfaketime.so.1"), None):
                return found
        if attempt == 0 and os.geteuid() == 0 and shutil.which("apt-get"):
            subprocess.run(["apt-get", "install", "-y", "-qq", "libfaketime"], capture_output=True, check=False)
    raise CannotStage("the clock of a process cannot be stepped without libfaketime (Debian: libfaketime)")


@contextlib.contextmanager
def _mounted(directory: Path) -> Iterator[None]:
    """Put a small file system at the directory meanwhile."""
    if os.geteuid() != 0:
        raise CannotStage("a small disk cannot be mounted: that takes root")
    directory.mkdir(mode=0o755)
    library = ctypes.CDLL(None, use_errno=True)
    options = f"size={SMALL_DISK_MEGABYTES}m,mode=755".encode()
    if library.mount(b"tmpfs", str(directory).encode(), b"tmpfs", 0, options):
        raise CannotStage(f"a small disk cannot be mounted: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        library.umount2(str(directory).encode(), 2)
