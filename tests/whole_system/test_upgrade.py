"""An upgrade without a gap, rehearsed: the former version's processes go on while this one migrates and takes over."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from poisonadmin.core.domain.secret_settings import without_secrets
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.spark import ConnectServer
from tests.fixtures.class_archive import give_archive
from tests.whole_system.consumer import consuming, takes
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import PROJECT, WORKERS, Installation, NoAnswer, until

# What landed before this version; set it anew with each release.
FORMER = "01240a25"
BATCH, EVERY_SECONDS = 40, 0.2
CELERY = ("-m", "celery", "--quiet", "-A", "workers.celery_app")
ALONE = ("--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat")
# No lock is to be waited for so long.
MOST_LOCK_SECONDS = 1.5


class Load(threading.Thread):
    """Hands batches in, 200 messages a second, to whichever web process is `asked`. One refused is handed in again."""

    def __init__(self, asked: Installation, address: str) -> None:
        super().__init__(daemon=True)
        self.asked = asked
        self._address = address
        self.sent = 0
        self.errors: list[str] = []
        self.slowest = 0.0
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            lines = [
                json.dumps({"address": self._address, "message_id": f"m{self.sent + n}", "payload": "x"})
                for n in range(BATCH)
            ]
            began = time.monotonic()
            try:
                reply = self.asked.ask("POST", "messages/batch/", "\n".join(lines).encode(), seconds=30)
                if reply.status >= 300:
                    self.errors.append(f"{reply.status} {reply.body[:200]!r}")
                else:
                    self.sent += BATCH
            except NoAnswer as error:
                self.errors.append(str(error))
            self.slowest = max(self.slowest, time.monotonic() - began)
            self._is_over.wait(max(EVERY_SECONDS - (time.monotonic() - began), 0))

    def stop(self) -> None:
        self._is_over.set()
        self.join(60)


class Successor(Installation):
    """This version's processes on the former one's services and home."""

    def __init__(self, former: Installation) -> None:
        self.home, self.port, self.log = former.home, free_port(), former.home / "successor.log"
        self._token = former.token
        own = former.environment | {"POISONADMIN_HOME": str(former.home), "POISONADMIN_ALLOW_LOOPBACK": "true"}
        kept = {name: value for name, value in without_secrets(os.environ).items() if name not in own}
        self._variables = kept | own
        self.begun: list[subprocess.Popen[bytes]] = []

    def run(self, *arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        """Start a process of this version."""
        with self.log.open("ab") as output:
            started = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=PROJECT,
                env=self._variables | more,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.begun.append(started)
        return started

    def stop(self) -> float:
        for process in self.begun:
            process.terminate()
        for process in self.begun:
            process.wait(30)
        return 0.0


@pytest.fixture
def former(tmp_path: Path, trained_server: ConnectServer) -> Iterator[Installation]:
    """Yield the former version, ready."""
    code, home = tmp_path / "former", tmp_path / "home"
    code.mkdir()
    home.mkdir()
    archive = subprocess.run(["git", "archive", FORMER], cwd=PROJECT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", code], input=archive, check=True)
    (code / "node_modules").symlink_to(PROJECT / "node_modules")
    give_archive(trained_server, home)

    class Former(Installation):
        prefix = ("env", "-C", str(code))

    running = Former(home)
    try:
        running.until_ready()
        yield running
    finally:
        running.stop()


def longest_lock(url: str, seconds: list[float], is_over: threading.Event) -> None:
    """Note how long statements have waited for locks."""
    with psycopg.connect(url, autocommit=True) as session:
        while not is_over.wait(0.1):
            [(waited,)] = session.execute(
                "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8"
                " FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event <> 'advisory'"
            ).fetchall()
            seconds.append(waited)


@pytest.mark.long
def test_the_next_version_takes_over_from_the_last_one_process_by_process(former: Installation) -> None:
    with ExitStack() as running:
        consumer = running.enter_context(consuming(takes))
        to = HttpDestination.create(former, "shop", consumer)
        load = Load(former, to.address)
        load.start()
        time.sleep(10)
        successor = Successor(former)
        running.callback(successor.stop)

        waits: list[float] = []
        is_over = threading.Event()
        threading.Thread(target=longest_lock, args=[former.superuser_url, waits, is_over], daemon=True).start()
        owner = former.home / "secrets" / "migration-database-url"
        began = time.monotonic()
        as_owner = {"MIGRATION_DATABASE_URL": owner.read_text().strip()}
        migration = successor.run("manage.py", "migrate", "--no-input", **as_owner)
        assert migration.wait(120) == 0, successor.output[-2000:]
        migrated_seconds = time.monotonic() - began
        is_over.set()
        # N-1 goes on beside N's tables.
        time.sleep(20)
        after_migration = len(consumer.arrivals)
        assert load.errors == []

        successor.run("-m", "poisonadmin.serve", "--port", str(successor.port), POISONADMIN_DB_POOL="true")
        until(lambda: successor.ask("GET", "/readyz?for=web").status == 200 if _answers(successor) else False, 120)
        load.asked = successor
        for queue, pool in (("io", "threads"), ("spark-redelivery", "solo"), ("spark-batch", "solo")):
            successor.run(*CELERY, "worker", "-Q", queue, "-n", f"{queue}@successor", *ALONE, f"--pool={pool}")
        successor.run(*CELERY, "beat", "-s", str(former.home / "successor-schedule"))
        ready = "SELECT FROM worker WHERE name LIKE '%%@successor' AND heartbeat_at > now() - interval '20 s'"
        until(lambda: len(former.rows(ready)) == 3, 300, lambda: successor.output[-2000:])
        # The former supervisor starts its processes again, and they refuse the newer tables.
        for name in ("web", *WORKERS):
            former.process_of(name).terminate()
            time.sleep(3)
        until(lambda: "has migrations that this version does not know" in former.output, 120)
        time.sleep(20)
        load.stop()
        until(lambda: former.rows("SELECT count(*) FROM message WHERE state = 'DLVD'")[0][0] >= load.sent, 180)

        arrived = sorted(one.at for one in consumer.arrivals)
        gap = max(later - sooner for sooner, later in pairwise(arrived))
        several = sum(n > 1 for n in Counter(one.message_id for one in consumer.arrivals).values())
        figures = {
            "messages": load.sent,
            "migration, s": round(migrated_seconds, 1),
            "longest wait for a lock, s": round(max(waits), 2),
            "delivered by the former version on the new tables": after_migration,
            "longest time without a delivery, s": round(gap, 1),
            "slowest request, s": round(load.slowest, 2),
            "requests that failed": len(load.errors),
            "delivered more than once": several,
        }
        print(json.dumps(figures, indent=1))
        states = former.rows("SELECT state, count(*) FROM message GROUP BY 1")
        assert states == [("DLVD", load.sent)]
        assert load.errors == []
        assert max(waits) < MOST_LOCK_SECONDS
        assert len({one.message_id for one in consumer.arrivals}) == load.sent


def _answers(successor: Installation) -> bool:
    try:
        successor.ask("GET", "/healthz", seconds=5)
    except NoAnswer:
        return False
    return True
