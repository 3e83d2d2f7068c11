"""An upgrade without a gap, rehearsed, and its way back: one version's processes take over from the other's."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from poisonadmin.core.domain.secret_settings import without_secrets
from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.processes import ChildSpec, spawn
from tests.faults.invariants import untraceable
from tests.faults.load import Load
from tests.services import Services, start_services
from tests.whole_system.consumer import Consumer, consuming, takes
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import PROJECT, Installation, NoAnswer, until
from tests.whole_system.rehearsed import figures

# What landed before this version; set it anew with each release.
FORMER = "01240a25"
# The first version that starts on tables to which a later one has added.
RETURNING = "fe9cf6d3"
RATE, BATCH = 200.0, 40
ALONE = ("--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat")
POOLS = {"io": "threads", "spark-redelivery": "solo", "spark-batch": "solo"}
# No lock is to be waited for so long.
MOST_LOCK_SECONDS = 1.5
# What the next version's `migrate` would do.
NEXT = """
ALTER TABLE worker ADD COLUMN rehearsed text;
INSERT INTO django_migrations (app, name, applied) VALUES ('store', '9999_expand_rehearsed', now());
"""


class Version(Installation):
    """The processes of a version, started by hand with a name of their own, on services and a home of all versions.

    Each has its own Spark, in its Spark workers, so that its own code delivers.
    """

    def __init__(self, name: str, code: Path, services: Services, home: Path) -> None:
        self.home, self.port, self.log = home, free_port(), home / f"{name}.log"
        self.code, self._name, self._owner_url = code, name, services.database_url
        self._token = ""
        own = {
            "DATABASE_URL": services.server.url,
            "REDIS_URL": services.redis_url,
            "POISONADMIN_HOME": str(home),
            "POISONADMIN_ALLOW_LOOPBACK": "true",
        }
        self._variables = without_secrets(os.environ) | own
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """What its processes find."""
        return self._variables

    def begun(self, *arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        """Start a process of this version."""
        spec = ChildSpec(self._name, [sys.executable, *arguments], self._variables | more, self.code)
        with self.log.open("ab") as output:
            return spawn(spec, output)

    def prepare(self) -> None:
        """Migrate as the owner of the tables, and do what else comes before a start."""
        for command in (["migrate", "--no-input"], ["bootstrap"]):
            done = self.begun("manage.py", *command, MIGRATION_DATABASE_URL=self._owner_url)
            assert done.wait(180) == 0, self.output[-2000:]

    def start(self) -> None:
        """Start every process, the web process first, and return when all are at work."""
        serve = ("-m", "poisonadmin.serve", "--port", str(self.port))
        self._running.append(self.begun(*serve, POISONADMIN_DB_POOL="true"))
        until(self._serves, 120, lambda: self.output[-2000:])
        celery = ("-m", "celery", "--quiet", "-A", "workers.celery_app")
        for queue, pool in POOLS.items():
            worker = ("worker", "-Q", queue, "-n", f"{queue}@{self._name}", *ALONE, f"--pool={pool}")
            self._running.append(self.begun(*celery, *worker))
        self._running.append(self.begun(*celery, "beat", "-s", str(self.home / f"{self._name}-schedule")))
        until(lambda: len(self.rows(_AT_WORK, [f"%@{self._name}"])) == len(POOLS), 300, lambda: self.output[-2000:])

    def stop(self) -> float:
        """Stop its processes, one after the other."""
        began = time.monotonic()
        for process in self._running:
            process.terminate()
            process.wait(60)
        self._running.clear()
        return time.monotonic() - began

    def _serves(self) -> bool:
        try:
            return self.ask("GET", "/readyz?for=web", seconds=5).status == 200
        except NoAnswer:
            return False


_AT_WORK = "SELECT FROM worker WHERE name LIKE %s AND heartbeat_at > now() - interval '5 s'"


class Rehearsal:
    """A load on the version that is at work, and a consumer; the versions share services and a home."""

    def __init__(self, home: Path, former: Path, until_the_end: ExitStack) -> None:
        self._home = home
        self.services = start_services(home)
        # Where the database's own user cannot enter the home, its files stand elsewhere.
        until_the_end.callback(shutil.rmtree, (home / "postgres").resolve(), ignore_errors=True)
        until_the_end.callback(self.services.stop)
        self._versions = until_the_end.enter_context(ExitStack())
        self.at_work = self.version("former", former)
        self.at_work.prepare()
        self.at_work.start()
        self.consumer: Consumer = until_the_end.enter_context(consuming(takes))
        self.load = Load(HttpDestination.create(self.at_work, "shop", self.consumer), RATE, batch=BATCH)
        until_the_end.enter_context(self.load)

    def version(self, name: str, code: Path = PROJECT) -> Version:
        """Return a version whose processes are yet to be started; what runs of it ends with the rehearsal."""
        version = Version(name, code, self.services, self._home)
        self._versions.callback(version.stop)
        return version

    def take_over(self, by: Version) -> None:
        """Start a version beside the one that is at work, give it the load, and stop the other one."""
        by.start()
        self.load.asked = by
        self.at_work.stop()
        self.at_work = by

    def figures(self) -> dict[str, float]:
        """End the load, and return what came of it once all of it is delivered."""
        self.load.stop_after(0)
        delivered = "SELECT count(*) FROM message WHERE state = 'DLVD'"
        until(lambda: self.at_work.rows(delivered)[0][0] >= len(self.load.accepted), 180, lambda: self.load.error)
        return figures(self.load, self.consumer)


@pytest.fixture
def rehearsed(tmp_path: Path) -> Iterator[Callable[[str], Rehearsal]]:
    """Yield what begins a rehearsal with the version of a commit at work."""
    with ExitStack() as until_the_end:

        def begin(commit: str) -> Rehearsal:
            code = tmp_path / "former"
            code.mkdir()
            archive = subprocess.run(["git", "archive", commit], cwd=PROJECT, capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", code], input=archive, check=True)
            (code / "node_modules").symlink_to(PROJECT / "node_modules")
            return Rehearsal(tmp_path / "home", code, until_the_end)

        yield begin


@contextmanager
def lock_waits(url: str) -> Iterator[list[float]]:
    """Note how long statements wait for locks meanwhile."""
    seconds, is_over = [0.0], threading.Event()

    def note() -> None:
        with psycopg.connect(url, autocommit=True) as session:
            while not is_over.wait(0.1):
                seconds.extend(waited for (waited,) in session.execute(_WAITING).fetchall())

    thread = threading.Thread(target=note, daemon=True)
    thread.start()
    try:
        yield seconds
    finally:
        is_over.set()
        thread.join(30)


_WAITING = """
SELECT extract(epoch FROM clock_timestamp() - query_start)::float8 FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND wait_event <> 'advisory'
"""


@pytest.mark.long
def test_the_next_version_takes_over_from_the_last_one_process_by_process(
    rehearsed: Callable[[str], Rehearsal],
) -> None:
    rehearsal = rehearsed(FORMER)
    former, successor = rehearsal.at_work, rehearsal.version("successor")
    time.sleep(10)
    began = time.monotonic()
    with lock_waits(rehearsal.services.superuser_url) as waits:
        successor.prepare()
    migrated_seconds = time.monotonic() - began
    # N-1 goes on beside N's tables.
    time.sleep(20)
    after_migration = len(rehearsal.consumer.arrivals)
    rehearsal.take_over(successor)
    time.sleep(20)
    # And does not start on them.
    assert former.begun("-m", "poisonadmin.serve", "--port", str(former.port)).wait(60) != 0
    assert "has migrations that this version does not know" in former.output

    seen = rehearsal.figures()
    by_former = {
        "migrate and bootstrap, s": round(migrated_seconds, 1),
        "longest wait for a lock, s": round(max(waits), 2),
        "delivered until the former version gave way": after_migration,
    }
    print(json.dumps(seen | by_former, indent=1))
    assert_nothing_was_lost(rehearsal, seen)
    assert max(waits) < MOST_LOCK_SECONDS


@pytest.mark.long
def test_the_former_version_takes_back_over_on_the_tables_of_the_next_one(
    rehearsed: Callable[[str], Rehearsal],
) -> None:
    rehearsal = rehearsed(RETURNING)
    former = rehearsal.at_work
    time.sleep(10)
    with psycopg.connect(rehearsal.services.database_url) as session:
        session.execute(NEXT)
    rehearsal.take_over(rehearsal.version("successor"))
    there = len(rehearsal.consumer.arrivals)
    time.sleep(20)
    back = rehearsal.version("returned", former.code)
    back.prepare()
    rehearsal.take_over(back)
    returned = len(rehearsal.consumer.arrivals)
    time.sleep(20)
    assert "does not know and that only add (9999_expand_rehearsed)" in back.output

    seen = rehearsal.figures()
    print(json.dumps(seen | {"there, back, after": [there, returned - there, len(rehearsal.load.accepted) - returned]}))
    assert_nothing_was_lost(rehearsal, seen)


def assert_nothing_was_lost(rehearsal: Rehearsal, seen: dict[str, float]) -> None:
    """Fail unless each message was delivered, with a reason for each second time, and each request answered."""
    states = rehearsal.at_work.rows("SELECT state, count(*) FROM message GROUP BY 1")
    assert states == [("DLVD", len(rehearsal.load.accepted))]
    assert [one for one in rehearsal.load.answers if one.status != 202] == []
    assert seen["lost"] == 0
    assert untraceable(rehearsal.at_work.rows, rehearsal.consumer.arrivals) == []
