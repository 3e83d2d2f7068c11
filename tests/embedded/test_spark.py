"""The embedded Spark Connect server, by itself: who may use it, and where it listens."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE, without_secrets
from poisonadmin.core.domain.spark_settings import fresh_directory
from poisonadmin.embedded.environment import read_wishes
from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.processes import spawn
from poisonadmin.embedded.spark import ConnectServer, remove_leftovers
from tests.fixtures.class_archive import give_archive

PATIENCE_SECONDS = 120
# Prints what a task returns; a line of its input has it run another one.
CLIENT = """
import sys
from workers.spark.session import start_session
spark = start_session("test")
def task():
    print("task:", spark.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect(), flush=True)
task()
for line in sys.stdin:
    task()
"""
FORKING = f"""{CLIENT}
import os
if os.fork() == 0:
    os._exit(0)
os.wait()
task()
"""
# How a task sees its own Python processes.
LOOKING = """
import os, psutil
from workers.spark.session import start_session
def look(batches):
    import pyarrow
    daemon = psutil.Process().parent()
    ports = [one.laddr.port for one in daemon.net_connections("tcp")]
    sockets = [one.laddr for one in daemon.net_connections("unix") if one.laddr]
    modes = [oct(os.stat(os.path.dirname(path)).st_mode & 0o777) for path in sockets]
    yield pyarrow.RecordBatch.from_pydict({"seen": [f"{ports} {modes}"]})
print("seen:", start_session("test").range(0, 1, 1, 1).mapInArrow(look, "seen string").collect()[0].seen)
"""


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, trained_server: ConnectServer
) -> Iterator[tuple[ConnectServer, psutil.Process]]:
    """A server that runs, with its process."""
    home = tmp_path_factory.mktemp("home")
    give_archive(trained_server, home)
    connect = ConnectServer(home, java_home(home, os.environ))
    own = {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(home / "spark")}
    spec = connect.spec(without_secrets(os.environ) | own)
    connect.choose_address()
    process = spawn(spec)
    yield connect, psutil.Process(process.pid)
    process.kill()
    process.wait()


def _ask(url_file: Path | None, client: str = CLIENT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", client],
        cwd=PROJECT,
        env=without_secrets(os.environ) | ({FILE_OF[SPARK_REMOTE]: str(url_file)} if url_file else {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_a_worker_of_this_user_runs_a_task(server: tuple[ConnectServer, psutil.Process]) -> None:
    ended = _ask(server[0].address_file)
    assert "task: [Row(id=0)]" in ended.stdout, ended.stderr


@pytest.mark.long
def test_a_python_process_without_tasks_ends_and_comes_again(server: tuple[ConnectServer, psutil.Process]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT],
        cwd=PROJECT,
        env=without_secrets(os.environ) | {FILE_OF[SPARK_REMOTE]: str(server[0].address_file)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin
        assert client.stdout
        assert "task: [Row(id=0)]" in client.stdout.readline()
        assert server[1].children()
        until = time.monotonic() + PATIENCE_SECONDS  # Spark lets the child go after a minute
        while server[1].children() and time.monotonic() < until:
            for one in server[1].children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(signal.SIGALRM)  # look for children now, not every 20 s
            time.sleep(0.25)
        assert server[1].children() == []
        assert list(server[0].sockets.iterdir()) == []
        client.stdin.write("again\n")
        client.stdin.close()
        assert "task: [Row(id=0)]" in client.stdout.readline()


@pytest.mark.parametrize("is_embedded", [True, False])
def test_python_processes_have_no_port(server: tuple[ConnectServer, psutil.Process], is_embedded: bool) -> None:
    ended = _ask(server[0].address_file if is_embedded else None, LOOKING)
    assert "seen: [] ['0o700']" in ended.stdout, ended.stderr


def test_a_directory_that_spark_finds_too_long_is_a_link() -> None:
    with tempfile.TemporaryDirectory() as parent:
        longest = Path(parent) / ("s" * (60 - len(parent) - 1))
        assert fresh_directory(longest) == longest
        too_long = longest.with_name(f"{longest.name}s")
        elsewhere = fresh_directory(too_long)
        assert too_long.readlink() == elsewhere
        assert len(bytes(elsewhere)) <= 60
        elsewhere.rmdir()


def test_sockets_of_a_long_home_have_a_short_directory(tmp_path: Path) -> None:
    wished = tmp_path / ("long" * 20) / "sockets"
    wished.parent.mkdir()
    first = fresh_directory(wished)
    assert len(str(first)) < 65
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    second = fresh_directory(wished)
    assert second != first
    assert not first.exists()
    second.rmdir()


@pytest.mark.parametrize("token", ["", ";token=guessed"])
def test_a_client_without_the_token_is_refused(
    server: tuple[ConnectServer, psutil.Process], token: str, tmp_path: Path
) -> None:
    (tmp_path / "url").write_text(server[0].address_file.read_text().partition(";")[0] + token)
    ended = _ask(tmp_path / "url")
    assert ended.returncode != 0
    assert "UNAUTHENTICATED" in ended.stderr
    assert "task:" not in ended.stdout


def test_it_listens_on_the_loopback_interface_only(server: tuple[ConnectServer, psutil.Process]) -> None:
    _ask(server[0].address_file)
    listening = {one.laddr.ip for one in server[1].net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_only_this_user_can_read_the_token(server: tuple[ConnectServer, psutil.Process]) -> None:
    connect, process = server
    token = connect.address_file.read_text().partition("token=")[2]
    assert len(token) > 40
    for path in connect.home.rglob("*"):
        if path.is_file() and token in path.read_text(errors="replace"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for one in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            assert token not in " ".join([*one.cmdline(), *one.environ().values()])


def test_what_killed_servers_left_is_removed_unless_another_runs(
    server: tuple[ConnectServer, psutil.Process], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _ask(server[0].address_file)
    used = server[0].home / "spark"
    before = set(used.rglob("*"))
    assert before
    remove_leftovers(used)
    assert set(used.rglob("*")) == before
    home = tmp_path_factory.mktemp("home")
    (home / "spark" / "blockmgr-1" / "00").mkdir(parents=True)
    (home / "spark" / "spark-1").mkdir()
    ConnectServer(home, server[0].java_home).choose_address()
    assert list((home / "spark").iterdir()) == []


def test_a_client_that_forks_says_nothing(server: tuple[ConnectServer, psutil.Process]) -> None:
    ended = _ask(server[0].address_file, FORKING)
    assert "task: [Row(id=0)]" in ended.stdout
    assert ended.stderr == ""


def test_each_start_has_another_port_and_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    connect = ConnectServer(home, java_home(home, os.environ))
    spec = connect.spec({})
    assert spec.clear_the_way is not None
    seen = set()
    for _ in range(3):
        spec.clear_the_way()
        seen.add(connect.address_file.read_text())
    assert len({url.partition("token=")[2] for url in seen}) == 3


@pytest.mark.parametrize(
    ("variables", "is_embedded"),
    [
        ({}, True),
        ({"SPARK_REMOTE": "sc://spark.example.org:15002"}, False),
        ({"SPARK_MASTER": "spark://spark.example.org:7077"}, False),
    ],
)
def test_spark_is_embedded_unless_it_is_named(variables: dict[str, str], is_embedded: bool, tmp_path: Path) -> None:
    wishes = read_wishes(variables, tmp_path)
    assert wishes.embeds_spark is is_embedded
    assert replace(wishes, spark_remote=None, spark_master=None).embeds_spark
