"""The class archive of the embedded Spark: made once, and never in the way of a start."""

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import psutil
import pytest

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE
from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.processes import spawn
from poisonadmin.embedded.spark import ConnectServer
from tests.fixtures.class_archive import ENVIRONMENT
from tests.patience import on_this_machine


def _archive(server: ConnectServer) -> Path:
    others = set(server.directory.iterdir()) - {server.sockets}
    (path,) = [path for path in others if path.suffix == ".jsa" or path.is_dir()]
    return path


def test_the_archive_is_all_that_the_training_leaves_and_a_start_uses_it(trained_server: ConnectServer) -> None:
    archive = _archive(trained_server)
    assert archive.stat().st_size > 50_000_000
    assert _runs_a_task(trained_server) == archive


@pytest.mark.parametrize("damage", ["byte", "half", "empty"])
def test_a_damaged_archive_is_removed_and_the_start_does_without(
    trained_server: ConnectServer, damage: str, tmp_path: Path
) -> None:
    server = ConnectServer(tmp_path, trained_server.java_home)
    server.directory.mkdir()
    whole = next(trained_server.directory.glob("*.jsa"))
    content = bytearray(whole.read_bytes())
    content[len(content) // 2] ^= 0xFF
    kept = {"byte": content, "half": content[: len(content) // 2], "empty": b""}[damage]
    (server.directory / whole.name).write_bytes(kept)
    server.choose_address()
    assert not server.has_archive
    assert not list(server.directory.glob("*.jsa"))


def test_an_archive_of_another_java_is_not_used(trained_server: ConnectServer, tmp_path: Path) -> None:
    other = tmp_path / "java"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "java").write_text("another")
    server = ConnectServer(trained_server.home, other)
    server.choose_address()
    assert not server.has_archive


@pytest.mark.long
def test_what_java_itself_cannot_use_is_no_obstacle(trained_server: ConnectServer, tmp_path: Path) -> None:
    server = ConnectServer(tmp_path, trained_server.java_home)
    server.directory.mkdir()
    stale = bytearray(next(trained_server.directory.glob("*.jsa")).read_bytes())
    stale[4:260] = bytes(256)  # the header, with the version of the Java that made it
    (server.directory / f"classes-{server.archive_kind}-{zlib.crc32(stale):08x}.jsa").write_bytes(stale)
    assert _runs_a_task(server) is not None


def test_a_training_that_is_killed_leaves_no_archive(tmp_path: Path) -> None:
    server = ConnectServer(tmp_path, java_home(tmp_path, os.environ))
    process = spawn(server.training(ENVIRONMENT))
    training = server.directory / "training"
    until = time.monotonic() + on_this_machine(60)
    while not list(training.glob("connect/arguments")):
        assert time.monotonic() < until
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=on_this_machine(10))
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    assert server.find_archive() is None


def _runs_a_task(server: ConnectServer) -> Path | None:
    """Start the server, run a task, and return the archive that it was given."""
    server.choose_address()
    process = spawn(server.spec(ENVIRONMENT))
    try:
        subprocess.run(
            [sys.executable, "-m", "workers.spark.session"],
            cwd=PROJECT,
            env=ENVIRONMENT | {FILE_OF[SPARK_REMOTE]: str(server.address_file)},
            check=True,
            timeout=300,
        )
    finally:
        process.kill()
        process.wait()
    return server.find_archive()
