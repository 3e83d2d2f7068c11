"""The embedded Spark Connect server, by itself: who may use it, and where it listens."""

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from poisonadmin.core.domain.secret_settings import FILE_OF, SPARK_REMOTE, without_secrets
from poisonadmin.embedded.environment import read_wishes
from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.plan import PROJECT
from poisonadmin.embedded.processes import spawn
from poisonadmin.embedded.spark import ConnectServer

PATIENCE_SECONDS = 120
# Prints what a task returns, then the setting that protects deliveries.
CLIENT = """
from workers.spark.session import start_session
spark = start_session("test")
print("task:", spark.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ConnectServer, psutil.Process]]:
    """A server that runs, with its process."""
    home = tmp_path_factory.mktemp("home")
    connect = ConnectServer(home, java_home(home, os.environ))
    spec = connect.spec(without_secrets(os.environ) | {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable})
    connect.choose_address()
    process = spawn(spec)
    yield connect, psutil.Process(process.pid)
    process.kill()
    process.wait()


def _ask(url_file: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", CLIENT],
        cwd=PROJECT,
        env=without_secrets(os.environ) | {FILE_OF[SPARK_REMOTE]: str(url_file)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_a_worker_of_this_user_runs_a_task(server: tuple[ConnectServer, psutil.Process]) -> None:
    ended = _ask(server[0].address_file)
    assert "task: [Row(id=0)]" in ended.stdout, ended.stderr


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


def test_each_start_has_another_port_and_token(tmp_path: Path) -> None:
    connect = ConnectServer(tmp_path, java_home(tmp_path, os.environ))
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
