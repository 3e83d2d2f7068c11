"""A promoted standby, rehearsed: the primary dies under load, and every process finds the new one by itself."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import psycopg
import pytest

from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.postgres import DATABASE, Postgres, processes_in, takes_sessions
from poisonadmin.embedded.processes import run_as, spawn
from poisonadmin.embedded.spark import ConnectServer
from tests.faults import invariants
from tests.faults.load import Load
from tests.faults.run import seconds_until_back
from tests.fixtures.class_archive import give_archive
from tests.services import Services, start_services
from tests.whole_system.consumer import consuming, takes
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import Installation, until
from tests.whole_system.rehearsed import figures, ids_of_two

RATE, BATCH = 150.0, 10
# How long it takes until somebody, or something, promotes the standby.
NOTICED_SECONDS = 5
SLOT = "standby"
STREAMING = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND (sync_state = 'sync' OR NOT %s)"
LAG = "SELECT coalesce(max(pg_current_wal_lsn() - flush_lsn), -1)::bigint FROM pg_stat_replication"
FLUSHED = "SELECT 1 FROM pg_stat_replication WHERE flush_lsn >= %s::pg_lsn"
HERE = "SELECT message_id FROM envelope"


@dataclass(frozen=True)
class Pair:
    """A primary with its services, and a standby that streams from it."""

    services: Services
    standby: Postgres

    def url(self, of: Callable[[Postgres], str]) -> str:
        """Return the address of whichever of the two takes writes."""
        both = ",".join(f"127.0.0.1:{one.port}" for one in (self.services.server, self.standby))
        login = of(self.standby).partition("@")[0]
        return f"{login}@{both}/{DATABASE}?target_session_attrs=read-write"

    def lag(self) -> int:
        """Return how many bytes of the log the standby has not written yet; -1 where it does not listen."""
        return int(asked(self.services.server, LAG)[0][0])

    def in_both_until(self) -> float:
        """Return the time before which everything that was accepted is on the standby's disk, too."""
        at = time.time()
        [(position,)] = asked(self.services.server, "SELECT pg_current_wal_lsn()::text")
        until(lambda: asked(self.services.server, FLUSHED, position))
        return at

    def kill_primary(self) -> None:
        """Kill all processes of the primary at once, as the death of its machine would."""
        for process in (psutil.Process(self.services.postgres.pid), *processes_in(self.services.server.data)):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.services.postgres.wait(30)

    def promote(self) -> None:
        """Have the standby take writes."""
        assert asked(self.standby, "SELECT pg_promote(wait_seconds => 120)") == [(True,)]


def asked(server: Postgres, query: str, *values: object) -> list[tuple[object, ...]]:
    """Run a statement on a server as its superuser."""
    with psycopg.connect(server.superuser_url, autocommit=True, connect_timeout=5) as session:
        cursor = session.execute(query, values or None)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def copied(primary: Postgres, until_the_end: ExitStack) -> Postgres:
    """Make a standby of a running server and start it; return when it takes sessions."""
    standby = replace(primary, data=primary.data.with_name("standby"), port=free_port())
    standby.data.mkdir(mode=0o700)
    if standby.account:
        os.chown(standby.data, standby.account.user_id, standby.account.group_id)
    options = ("--create-slot", f"--slot={SLOT}", "--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream")
    subprocess.run(
        [primary.programs / "pg_basebackup", f"--dbname={primary.superuser_url}", f"--pgdata={standby.data}", *options],
        cwd="/",
        check=True,
        **run_as(primary.account),
    )
    with (standby.data / "postgresql.conf").open("a") as file:
        file.write(f"port = {standby.port}\n")
    process = spawn(standby.spec, subprocess.DEVNULL)
    until_the_end.callback(process.wait, 60)
    until_the_end.callback(process.terminate)
    until(lambda: takes_sessions(standby.url), 60)
    return standby


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as until_the_end:
        services = start_services(tmp_path / "services")
        files = (tmp_path / "services" / "postgres").resolve()
        until_the_end.callback(shutil.rmtree, files, ignore_errors=True)
        until_the_end.callback(services.stop)
        yield Pair(services, copied(services.server, until_the_end))


@pytest.mark.long
@pytest.mark.parametrize(
    ("is_synchronous", "seconds_behind"),
    [
        pytest.param(True, 0, id="synchronous"),
        pytest.param(False, 0, id="asynchronous"),
        pytest.param(False, 3, id="asynchronous and behind"),
    ],
)
def test_a_promoted_standby_is_found_and_has_what_it_was_sent(
    pair: Pair, is_synchronous: bool, seconds_behind: int, tmp_path: Path, trained_server: ConnectServer
) -> None:
    if is_synchronous:
        # The copy does not have it: a promoted standby would wait for one of its own for ever.
        asked(pair.services.server, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        asked(pair.services.server, "SELECT pg_reload_conf()")
    until(lambda: asked(pair.services.server, STREAMING, is_synchronous))
    home = tmp_path / "home"
    home.mkdir()
    give_archive(trained_server, home)
    with ExitStack() as running:
        installation = Installation(
            home,
            DATABASE_URL=pair.url(lambda one: one.url),
            MIGRATION_DATABASE_URL=pair.url(lambda one: one.owner_url),
            REDIS_URL=pair.services.redis_url,
        )
        running.callback(installation.stop)
        installation.until_ready()
        consumer = running.enter_context(consuming(takes))
        load = Load(HttpDestination.create(installation, "shop", consumer), RATE, batch=BATCH)
        running.enter_context(load)
        until(lambda: len(consumer.arrivals) > RATE * 15, 120, lambda: load.error or "no arrivals")
        started = installation.output.count("started ")

        in_both_until, lag = pair.in_both_until(), pair.lag()
        if seconds_behind:
            asked(pair.standby, "ALTER SYSTEM SET primary_conninfo = ''")
            asked(pair.standby, "SELECT pg_reload_conf()")
            until(lambda: pair.lag() == -1)
            time.sleep(seconds_behind)
        pair.kill_primary()
        killed_at = time.time()
        time.sleep(NOTICED_SECONDS)
        pair.promote()
        promoted_at = time.time()
        until(lambda: max(load.accepted.values()) > promoted_at, 120, lambda: load.error or "nothing is accepted")
        until(lambda: consumer.arrivals[-1].at > promoted_at, 120, lambda: installation.output[-3000:])
        time.sleep(20)
        load.stop_after(0)
        assert load.error is None
        until(lambda: installation.rows(_NOT_DELIVERED) == [(0,)], 180, lambda: installation.output[-3000:])
        until(installation.is_ready, 120, lambda: installation.ask("GET", "/readyz").body)

        here = {message_id for (message_id,) in installation.rows(HERE)}
        gone = {one: at for one, at in load.accepted.items() if one not in here}
        failed = [one for one in load.answers if one.status != 202]
        seen = figures(load, consumer) | {
            "the standby was behind, bytes": lag,
            "requests answered with 5xx": sum(one.status >= 500 for one in failed),
            "requests without an answer": sum(one.status == 0 for one in failed),
            "accepted and gone": len(gone),
            "of the oldest of these, s before the kill": round(killed_at - min(gone.values(), default=killed_at), 2),
            "ids given to two messages": ids_of_two(consumer),
            "from the kill to the promotion, s": round(promoted_at - killed_at, 1),
            "from the promotion to the first request accepted, s": round(
                min(at for at in load.accepted.values() if at > promoted_at) - promoted_at, 1
            ),
            "from the promotion to the first delivery, s": round(
                min(one.at for one in consumer.arrivals if one.at > promoted_at) - promoted_at, 1
            ),
            "from the promotion to the rate of before, s": round(
                seconds_until_back(list(consumer.arrivals), killed_at, promoted_at), 1
            ),
            "processes that the supervisor started again": installation.output.count("started ") - started,
        }
        print(json.dumps(seen, indent=1))
        # What is gone was accepted while the standby was behind, and nothing else.
        assert [one for one, at in gone.items() if is_synchronous or at < in_both_until] == []
        assert gone or not seconds_behind
        assert invariants.all_broken(installation.rows) == []


_NOT_DELIVERED = "SELECT count(*) FROM message WHERE state <> 'DLVD'"
