"""Jobs give the same rows on `local`, on a cluster of processes, on docker-compose.yml's cluster, and over Connect."""

import contextlib
import json
import os
import pickle
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from poisonadmin.archive.domain.pieces import PieceOrder, WriteOrder
from poisonadmin.comparisons.domain.comparison import Compared
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.embedded.ports import free_port
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.reports.domain.asked import AskedReport, asked_report
from poisonadmin.reports.domain.reading import Archived, Reading
from poisonadmin.reports.queries.archived import archived_where, row_conditions
from poisonadmin.reports.queries.live import range_statements
from poisonadmin.rules.domain.dry_run import Trial
from poisonadmin.rules.domain.rules import RuleDefinition, Stage
from poisonadmin.search.deep.domain import Wave
from poisonadmin.search.deep.queries import clauses_of
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.message import Message
from tests.comparisons.incident import incident
from tests.embedded.test_compose import DOCKER, PROJECT
from tests.tables.everywhere import Asked, as_json, carried_out
from workers.spark.tables.columns import TABLES, arrow_schema
from workers.spark.tables.source import Extent, read_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]
COMPOSE = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]


def test_jobs_give_the_same_rows_everywhere(spark: SparkSession, test_database_url: str, tmp_path: Path) -> None:
    asked = asked_of_all(spark, tmp_path)
    own = {"DATABASE_URL": test_database_url}
    # As the others print it.
    local = json.loads(as_json(carried_out(spark, asked, "local")))
    sizes = {what: len(rows) for what, rows in local.items()}
    assert sizes | {"archive": 1} == {
        "messages": 145,
        "attempts": 90,
        "history": 270,
        "operations": 0,
        "results": 0,
        "events of addresses": 3,
        "search": 30,
        "search for few": 5,
        "search of files": 46,
        "report": 30,
        "report of files": 9,
        "report of groups": 3,
        "alike": 20,
        "comparison": 5,
        "dry run": 2,
        "archive": 1,
        "regrouping": 2,
    }
    assert local["comparison"]["findings"]
    assert [found[1] for found in local["dry run"]] == [21, 9]
    ((_, versions, files),) = local["archive"]
    assert (versions["message"][0], {table for table, *_ in files} >= {"messages", "attempts", "history"}) == (60, True)
    moves, changes = local["regrouping"]
    assert (sum(one[2] for one in moves), len(changes)) == (39, 39)
    assert everything(own | {"SPARK_MASTER": "local-cluster[2,1,1024]"}, asked, tmp_path / "local-cluster") == local
    with connect(tmp_path, own) as at_server:
        assert everything(own | at_server, asked, tmp_path / "connect") == local
    # The commands and the secret of docker-compose.yml, not the jobs, are what differs here.
    some = "events of addresses"
    with cluster(tmp_path, own) as at_cluster:
        assert everything(own | at_cluster, {some: asked[some]}, tmp_path / "cluster") == {some: local[some]}


def asked_of_all(spark: SparkSession, directory: Path) -> Asked:
    """Store 30 messages that failed and 60 that were delivered, half of them archived too; return what is asked."""
    failing, others = incident(30, 60, order)
    ids = [*failing, *others]
    live = [IdRange(ids[0] - 1, ids[20]), IdRange(ids[20], ids[-1])]
    files = {table: written(spark, table, IdRange(ids[20], ids[75]), directory) for table in ("messages", "attempts")}
    dry_run = Trial(
        Stage.BEFORE, RuleDefinition(1, "new", 1, NEW_CLIENT, {"do": "reject"}), (Message.objects.all()[0].address_id,)
    )
    cutoffs = json.dumps([{"address_id": Message.objects.all()[0].address_id, "delivered": "2999-01-01T00:00:00Z"}])
    Attempt.objects.filter(message_id__in=failing).update(fingerprint="former")
    by_version = asked_report("redelivery")
    failures = asked_report("failures", columns=["id", "message_id", "error_class", "header.client-version", "payload"])

    def live_report(asked: AskedReport) -> Reading:
        return Reading(asked, range_statements(asked, SYSTEM, live))

    def archived_report(asked: AskedReport) -> Reading:
        return Reading(asked, archived=Archived(files, archived_where(asked, SYSTEM), row_conditions(asked)))

    def search(q: str, **where: Any) -> Wave:
        return Wave(clauses_of(parse_filter({"q": [q]})), **where)

    return {
        **{name: ("table", (name, Extent(live, files["messages"] if name == "messages" else ()))) for name in TABLES},
        "events of addresses": ("join", (Extent(live),)),
        "search": ("search", (search("payload.$.total:>=1000", ranges=live),)),
        "search for few": ("search", (search('payload:"currency"', ids=ids[::20]),)),
        "search of files": ("search", (search("header.client-version:4.1.0", files=files["messages"]),)),
        "report": ("report", (live_report(failures),)),
        "report of files": ("report", (archived_report(failures),)),
        "report of groups": ("report", (live_report(by_version),)),
        "alike": ("alike", (WORDS,)),
        "comparison": ("comparison", (Compared(failing, others, with_payload=True),)),
        "dry run": ("dry run", (dry_run, live)),
        "archive": ("archive", (WriteOrder(str(directory), 1, cutoffs), [PieceOrder(1, ids[0] - 1, ids[-1], "0-a")])),
        "regrouping": ("regrouping", (live, files["attempts"])),
    }


def order(n: int, is_failing: bool) -> dict[str, Any]:
    payload = {"total": n + 1000 if is_failing else n, "currency": "EUR"}
    return {"payload": payload, "headers": {"client-version": "4.2.0" if is_failing else "4.1.0"}}


# Two and two share ten words of eleven.
WORDS = [(place, [f"{place // 2} {n}" for n in range(10)] + [f"own {place}"]) for place in range(40)]
NEW_CLIENT = {"json": [{"path": "$.total", "within": {"min": 1000}}]}


def written(spark: SparkSession, table: str, ids: IdRange, directory: Path) -> list[str]:
    """Write rows of a table as the archive does; return the file's path."""
    rows = read_table(spark, table, Extent([ids]), tasks=1).toArrow()
    pq.write_table(rows.cast(arrow_schema(TABLES[table].columns)), directory / f"{table}.parquet")
    return [str(directory / f"{table}.parquet")]


def everything(environment: dict[str, str], asked: Asked, file: Path) -> dict[str, Any]:
    file.write_bytes(pickle.dumps(asked))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.tables.everywhere", str(file)],
        cwd=PROJECT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
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
