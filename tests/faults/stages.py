"""The kinds of installation that faults need.

A plain one, one whose clock can be stepped, one on a small disk, one on a cluster of two executors, one over Connect.
"""

import contextlib
import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from poisonadmin.embedded.ports import free_port
from tests.faults.connect_server import ConnectServer
from tests.whole_system.handler_destination import HANDLERS
from tests.whole_system.installation import Installation

SMALL_DISK_MEGABYTES = 700
_STEPPING = Path(__file__).resolve().parent / "stepping"


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
            installation = Installation(home, POISONADMIN_HANDLER_PATH=str(HANDLERS), **environment)
            try:
                with _served(installation, environment):
                    installation.until_ready()
                    yield installation
            finally:
                installation.stop()
    finally:
        shutil.rmtree(top, ignore_errors=True)


@contextlib.contextmanager
def _prepared(stage: str, home: Path) -> Iterator[dict[str, str]]:
    if stage == "stepping":
        clock_file(home).write_text("0\n")
        yield {"PYTHONPATH": str(_STEPPING), "FAULT_CLOCK_FILE": str(clock_file(home))}
    elif stage == "small-disk":
        with _mounted(home / "postgres"):
            yield {}
    elif stage == "cluster":
        yield {"SPARK_MASTER": "local-cluster[2,2,1024]"}
    elif stage == "connect":
        yield {"SPARK_REMOTE": f"sc://127.0.0.1:{free_port()}"}
    else:
        yield {}


@contextlib.contextmanager
def _served(installation: Installation, environment: Mapping[str, str]) -> Iterator[None]:
    """Run the Spark Connect server meanwhile that the environment names, if it names one."""
    remote = environment.get("SPARK_REMOTE")
    if remote is None:
        yield
        return
    server = ConnectServer(installation, int(remote.rpartition(":")[2]))
    try:
        yield
    finally:
        server.stop()


def clock_file(home: Path) -> Path:
    """Return the file whose content, in seconds, is how far the clock is off on the stage `stepping`."""
    return home / "clock"


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
