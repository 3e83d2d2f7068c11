"""Jobs give the same rows on `local`, on a cluster of processes, on docker-compose.yml's cluster, and over Connect."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.embedded.ports import free_port
from poisonadmin.messages.domain.id_ranges import IdRange
from tests.embedded.test_compose import DOCKER, PROJECT
from tests.fixtures.decisions import quarantine
from tests.tables.test_tables import put
from workers.spark.tables.columns import TABLES, arrow_schema
from workers.spark.tables.extent import Extent
from workers.spark.tables.frames import read_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]
COMPOSE = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]


def test_jobs_give_the_same_rows_everywhere(spark: SparkSession, test_database_url: str, tmp_path: Path) -> None:
    ids = put(30) + put(20, address="invoices")
    quarantine(ids[:25], principal=SYSTEM, reason="waits")
    archived = read_table(spark, "messages", Extent([IdRange(ids[0] - 1, ids[9])]), tasks=1).toArrow()
    file = tmp_path / "archived.parquet"
    pq.write_table(archived.cast(arrow_schema(TABLES["messages"].columns)), file)
    own = {"DATABASE_URL": test_database_url}
    with cluster(tmp_path, own) as at_cluster, connect(tmp_path, own) as at_server:
        places = [{"SPARK_MASTER": "local[2,4]"}, {"SPARK_MASTER": "local-cluster[2,1,1024]"}, at_cluster, at_server]
        local, *others = [everything(own | place, file) for place in places]
    assert len(local["messages"]) == 60
    assert sum(int(row[2]) for row in local["by address"]) == len(local["history"]) == 75
    for other in others:
        assert other == local


def everything(environment: dict[str, str], file: Path) -> dict[str, list[list[str]]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.tables.everywhere", str(file)],
        cwd=PROJECT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextlib.contextmanager
def cluster(directory: Path, own: dict[str, str]) -> Iterator[dict[str, str]]:
    """Run the services of docker-compose.yml's profile `spark` as processes of this machine."""
    subprocess.run([DOCKER / "make-secrets.sh", directory / "secrets"], check=True, capture_output=True)
    port = free_port()
    environment = {
        **os.environ,
        **own,
        "SPARK_CONF_DIR": str(directory / "secrets"),
        "SPARK_HOME": str(Path(sys.modules["pyspark"].__file__ or "").parent),
        "PYTHONPATH": str(PROJECT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    started = []
    try:
        for name in ("spark-master", "spark-worker-1", "spark-worker-2"):
            command = COMPOSE[name]["command"].replace("--host spark-master", "--host 127.0.0.1")
            command = command.replace("spark-master", "127.0.0.1").replace("7077", str(port))
            command = command.replace("/var/lib/poisonadmin/spark", str(directory / name)) + " --webui-port 0"
            with (directory / f"{name}.log").open("wb") as log:
                program, *arguments = shlex.split(command)
                started.append(
                    subprocess.Popen(
                        [Path(environment["SPARK_HOME"]) / "bin" / program, *arguments],
                        env=environment,
                        stdout=log,
                        stderr=log,
                    )
                )
            until_said(
                directory / f"{name}.log", "I have been elected leader" if name == "spark-master" else "registered with"
            )
        yield {
            "SPARK_MASTER": f"spark://127.0.0.1:{port}",
            "SPARK_CONF_DIR": environment["SPARK_CONF_DIR"],
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


@contextlib.contextmanager
def connect(directory: Path, own: dict[str, str]) -> Iterator[dict[str, str]]:
    """Run a Spark Connect server."""
    port = free_port()
    home = Path(sys.modules["pyspark"].__file__ or "").parent
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "workers.spark.daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    log = directory / "connect.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                *(home / "bin" / "spark-submit", "--master", "local[4,4]"),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *options),
            ],
            env={
                **os.environ,
                **own,
                "SPARK_HOME": str(home),
                "PYTHONPATH": str(PROJECT),
                "PYSPARK_PYTHON": sys.executable,
            },
            stdout=output,
            stderr=output,
        )
    try:
        until_said(log, "Spark Connect server started")
        yield {"SPARK_REMOTE": f"sc://localhost:{port}"}
    finally:
        server.terminate()
        server.wait(30)


def until_said(log: Path, words: str) -> None:
    end = time.monotonic() + 120
    while words not in log.read_text(errors="replace"):
        assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)
