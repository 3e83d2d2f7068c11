"""A run of the ingest job killed at any point, and run again: each line is taken once, in order, nothing is left over.

F7 of docs/operate/reliability.md. The points are steps that the run prints, chosen by a seed.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest
from django.db import connections

from poisonadmin.intake.commands.staged import sweep_orphans
from poisonadmin.sources.commands.directories import Stage, ingest_source
from tests.fixtures.inbox import Inbox
from tests.intake.store import assert_whole, line, payloads, rejected, rows

PROJECT = Path(__file__).resolve().parents[2]
FILES = 3
LINES = 120


def fill(inbox: Inbox) -> None:
    """Put files there whose lines have ids, except each fifth; each fiftieth is bad."""
    for file in range(FILES):
        lines = []
        for n in range(file * LINES, (file + 1) * LINES):
            known = {} if n % 5 == 0 else {"message_id": str(n)}
            lines.append(b"bad\n" if n % 50 == 7 else line(payload=f"body {n}", **known))
        inbox.drop(f"{file}.ndjson", b"".join(lines), age_seconds=100 - file)


def assert_taken_once(inbox: Inbox) -> None:
    every = range(FILES * LINES)
    assert payloads() == [f"body {n}".encode() for n in every if n % 50 != 7]
    assert [raw for _, _, raw in rejected()] == [b"bad"] * sum(n % 50 == 7 for n in every)
    assert [state for state, *_ in inbox.files()] == ["taken"] * FILES
    assert sum(accepted for _, accepted, _, _ in inbox.files()) == len(payloads())
    assert sweep_orphans() == 0
    assert_whole()


def run_until(inbox: Inbox, database_url: str, how: str, step: str | None, times: int) -> None:
    """Run the job in a process of its own and kill it with all its children after the step was said so often."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.intake.run_ingest", str(inbox.source.id), how],
        cwd=PROJECT,
        env=os.environ | {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "poisonadmin.settings"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for said in process.stdout:
            times -= said.strip() == step
            if times == 0:
                break
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(signal.SIGKILL)
        psutil.wait_procs(family, timeout=10)


def wait_for_sessions_to_end(inbox: Inbox) -> None:
    """Wait until the database has noticed that the killed run's sessions are gone."""
    with_lock = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid IN (25, 26)"
    for _ in range(200):
        if rows(with_lock) == [(0,)]:
            return
        rows("SELECT pg_sleep(0.05)::text")
    raise AssertionError("a killed session still holds its locks")


@pytest.mark.parametrize("seed", range(2))
def test_a_run_killed_anywhere_is_made_good_by_the_next(
    inbox: Inbox, stage: Stage, test_database_url: str, seed: int
) -> None:
    fill(inbox)
    dice = random.Random(seed)
    for _ in range(2):
        step = dice.choice(["begin", "slice", "part", "merge"])
        run_until(inbox, test_database_url, "here", step, dice.randint(1, 12))
        wait_for_sessions_to_end(inbox)
    ingest_source(inbox.source.id, stage=stage, worker="tests")
    assert_taken_once(inbox)


def test_a_python_worker_killed_while_it_writes_is_replaced_and_writes_once(
    inbox: Inbox, stage: Stage, test_database_url: str
) -> None:
    fill(inbox)
    with staging_held_up(inbox, stage, test_database_url) as (_, client_port):
        [pid] = {one.pid for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == client_port} - {
            None
        }
        psutil.Process(pid).kill()
    assert_taken_once(inbox)


def test_a_session_that_the_database_ends_is_replaced_and_writes_once(
    inbox: Inbox, stage: Stage, test_database_url: str
) -> None:
    fill(inbox)
    with staging_held_up(inbox, stage, test_database_url) as (session_pid, _):
        rows("SELECT pg_terminate_backend(%s)", session_pid)
    assert_taken_once(inbox)


@contextlib.contextmanager
def staging_held_up(inbox: Inbox, stage: Stage, database_url: str) -> Iterator[tuple[int, int]]:
    """Begin a run, hold its tasks up in the middle of their parts, yield (session's pid, client's port) of one of them.

    Then let them go on, and wait for the run's end.
    """
    with psycopg.connect(database_url) as blocker, ThreadPoolExecutor(1) as thread:
        # Bodies can be written meanwhile, staged rows cannot.
        blocker.execute("LOCK TABLE staged_message IN SHARE MODE")
        run = thread.submit(ingest_and_close, inbox, stage)
        yield blocked_copy(database_url)
        blocker.rollback()
        run.result(timeout=120)


def ingest_and_close(inbox: Inbox, stage: Stage) -> None:
    try:
        ingest_source(inbox.source.id, stage=stage, worker="tests")
    finally:
        connections.close_all()


def blocked_copy(database_url: str) -> tuple[int, int]:
    """Return the session and its client's port of a COPY into staged_message that waits for its lock."""
    blocked = """SELECT pid, client_port FROM pg_stat_activity
                 WHERE wait_event_type = 'Lock' AND query LIKE 'COPY staged_message%' AND client_port > 0 LIMIT 1"""
    with psycopg.connect(database_url, autocommit=True) as session:
        for _ in range(1200):
            if (found := session.execute(blocked).fetchone()) is not None:
                return found[0], found[1]
            session.execute("SELECT pg_sleep(0.05)")
    raise AssertionError("no task came to write staged rows")


@pytest.mark.long
def test_a_killed_driver_with_its_spark_is_made_good_by_the_next(
    inbox: Inbox, stage: Stage, test_database_url: str
) -> None:
    fill(inbox)
    run_until(inbox, test_database_url, "spark", "merge", 2)
    wait_for_sessions_to_end(inbox)
    assert rows("SELECT count(*) > 0 FROM message") == [(True,)]
    ingest_source(inbox.source.id, stage=stage, worker="tests")
    assert_taken_once(inbox)
