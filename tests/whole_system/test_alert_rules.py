"""The alert rules of `deploy/prometheus` fire in a running Prometheus while what they are about is the matter.

Times and limits are those of the rules. Only the archive's run is made older by hand, for its rule waits for two hours;
`tests/deploy/prometheus_test.yml` has the rules fire that need a quarter of an hour or wrong counts.
"""

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.spark import ConnectServer
from tests.apt import find_program
from tests.fixtures.class_archive import give_archive
from tests.whole_system.consumer import consuming, takes
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import PROJECT, Installation, until

CONFIGURATION = """
global: {{scrape_interval: 15s, evaluation_interval: 5s}}
scrape_configs:
  - job_name: poisonadmin
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
rule_files: [{rules}]
"""
DISK_BYTES = 64 * 2**20
MATTERS = {
    "PoisonAdminWorkerGone",
    "PoisonAdminDeliveriesLate",
    "PoisonAdminSourceUnreadable",
    "PoisonAdminArchiveFails",
    "PoisonAdminDiskFills",
}


class Prometheus:
    """A server that scrapes an installation."""

    def __init__(self, home: Path, watched: Installation) -> None:
        program = find_program("prometheus")
        assert program is not None, "install the package `prometheus`"
        rules = PROJECT / "deploy" / "prometheus" / "poisonadmin.yml"
        values = {"token": watched.home / "admin-token", "port": watched.port, "rules": rules}
        (home / "prometheus.yml").write_text(CONFIGURATION.format(**values))
        self._port = free_port()
        place = [f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data"]
        self._process = subprocess.Popen(
            [program, *place, f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=error"]
        )

    def firing(self) -> set[str]:
        """Return the names of the rules that fire."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=5) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except OSError:
            return set()
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield an empty disk of 64 MiB; needs root."""
    place = tmp_path / "archive"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.long
def test_each_rule_fires_while_what_it_is_about_is_the_matter(
    tmp_path: Path, small_disk: Path, trained_server: ConnectServer
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    give_archive(trained_server, home)
    with ExitStack() as running:
        installation = Installation(home, POISONADMIN_ARCHIVE=str(small_disk))
        running.callback(installation.stop)
        installation.until_ready()
        prometheus = Prometheus(tmp_path, installation)
        running.callback(prometheus.stop)
        consumer = running.enter_context(consuming(takes))
        to = HttpDestination.create(installation, "shop", consumer)
        to.until(to.send("one"), "DLVD", 60)
        until(lambda: installation.rows("SELECT FROM metric_total WHERE metric = 'attempts'"), 60)
        assert prometheus.firing() == set()

        (small_disk / "filling").write_bytes(bytes(DISK_BYTES - 4096))
        config = {"url": "amqp://127.0.0.1:1/", "queues": ["orders.dlq"]}
        installation.post("sources/", {"name": "gone", "kind": "rabbitmq", "config": config})
        with psycopg.connect(installation.superuser_url, autocommit=True) as session:
            session.execute("UPDATE message SET state_at = now() - interval '40 days'")
        run = installation.post("archive/run/")["id"]
        until(lambda: installation.get(f"archive/{run}/")["error"], 120)
        assert "space" in installation.get(f"archive/{run}/")["error"]
        with psycopg.connect(installation.superuser_url, autocommit=True) as session:
            session.execute("UPDATE run SET created_at = now() - interval '2 hours' WHERE kind = 'archive'")
        worker = installation.process_of("spark-redelivery")
        worker.send_signal(signal.SIGSTOP)
        try:
            waiting = to.send("two")
            until(lambda: prometheus.firing() >= MATTERS, 600)
            assert prometheus.firing() == MATTERS
        finally:
            worker.send_signal(signal.SIGCONT)
        (small_disk / "filling").unlink()
        to.until(waiting, "DLVD", 120)
        for source in installation.get("sources/")["results"]:
            installation.ask("DELETE", f"sources/{source['id']}/")
        until(lambda: prometheus.firing() == set(), 300)

        with psycopg.connect(installation.superuser_url, autocommit=True) as session:
            session.execute("ALTER ROLE poisonadmin NOLOGIN")
            session.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'poisonadmin'")
            until(lambda: "PoisonAdminDatabaseGone" in prometheus.firing(), 120)
            session.execute("ALTER ROLE poisonadmin LOGIN")
        until(lambda: prometheus.firing() == set(), 120)
