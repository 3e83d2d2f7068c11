"""Whoever archives or erases is killed at any moment: the next one goes on, and nothing is lost or there twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.conf import settings
from django.db import connection

from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.queries import get_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.decisions.operations.queries.operations import recorded_results
from poisonadmin.messages.queries.archived_index import archived_files
from poisonadmin.messages.queries.counts import wrong_counters
from poisonadmin.store.models.run import LongRun
from tests.archive.fixtures import fail, place, put  # noqa: F401  (a fixture)
from tests.fixtures.delivery import make_destination

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place")]
PROJECT = Path(__file__).resolve().parents[2]
MESSAGES = 200


def started(database_url: str) -> "subprocess.Popen[str]":
    """Begin to archive in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.archive.in_process"],
        cwd=PROJECT,
        env=os.environ
        | {
            "DATABASE_URL": database_url,
            "DJANGO_SETTINGS_MODULE": "poisonadmin.settings",
            "POISONADMIN_ARCHIVE": settings.ARCHIVE,
        },
        stdout=subprocess.PIPE,
        text=True,
    )


def struck(database_url: str, dice: random.Random) -> None:
    """Kill it, or its sessions, behind some steps and somewhere within the next."""
    with started(database_url) as process:
        assert process.stdout is not None
        for _ in range(dice.randint(1, 12)):
            process.stdout.readline()
        time.sleep(dice.random() * 0.05)
        if dice.random() < 0.5:
            with connection.cursor() as cursor:
                cursor.execute(
                    """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user"""
                )
        process.send_signal(signal.SIGKILL)


def finished(database_url: str) -> None:
    """Have one that nobody kills go on to the end."""
    LongRun.objects.update(resumes_at=None)
    with started(database_url) as process:
        assert process.wait(timeout=120) == 0


def seqs() -> list[int]:
    """Return the numbers of all history rows, live and archived: each there once, whatever happened."""
    files = [pq.read_table(path, columns=["seq"]).column(0).to_pylist() for path in archived_files("history")]
    return sorted([*fetch_values("SELECT seq FROM history"), *(seq for some in files for seq in some)])


def left_alone(ids: list[int]) -> None:
    """Have an operation leave these messages alone."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO operation_result (operation_id, message_id, outcome, code)
               SELECT 1, id, 'skipped', 'state' FROM unnest(%s::bigint[]) AS id""",
            [ids],
        )


def test_a_run_goes_on_after_each_kill(test_database_url: str) -> None:
    dice = random.Random(1)
    ids = put(MESSAGES)
    fail(ids[:150])
    left_alone(ids[:160])
    before = seqs()
    made = request_archive_run(principal=SYSTEM)
    for _ in range(3):
        struck(test_database_url, dice)
        assert seqs() == before
        assert recorded_results(1) == {"skipped": 160}
        LongRun.objects.update(resumes_at=None)
    finished(test_database_url)
    ended = get_run(made.id, principal=SYSTEM)
    assert (ended.state, ended.tables["messages"]["rows"]) == ("succeeded", 150)
    assert seqs() == before
    assert recorded_results(1) == {"skipped": 160}
    assert fetch_values("SELECT message_id FROM operation_result ORDER BY 1") == ids[150:160]
    assert ended.tables["results"]["rows"] == 150
    assert fetch_values("SELECT id FROM message ORDER BY id") == ids[150:]
    assert fetch_values("SELECT id FROM archived_message ORDER BY id") == ids[:150]
    assert wrong_counters() == []
    kept = {path for (path,) in fetch_rows("SELECT path FROM archive_file")}
    assert {str(path.relative_to(settings.ARCHIVE)) for path in Path(settings.ARCHIVE).rglob("*.parquet")} == kept


@pytest.mark.long
def test_the_removal_of_payloads_goes_on_after_a_kill(test_database_url: str) -> None:
    dice = random.Random(3)
    ids = put(MESSAGES)
    fail(ids[:100])
    request_archive_run(principal=SYSTEM)
    finished(test_database_url)
    fail(ids[100:150], days_ago=40)
    before = seqs()
    make_destination(keep_payload_days=30)
    made = request_archive_run(principal=SYSTEM)
    for _ in range(3):
        struck(test_database_url, dice)
        LongRun.objects.update(resumes_at=None)
    finished(test_database_url)
    ended = get_run(made.id, principal=SYSTEM)
    assert (ended.state, ended.result.payloads) == ("succeeded", 150)
    assert seqs() == before
    assert fetch_values("SELECT message_id FROM removed_payload ORDER BY 1") == ids[:150]
    assert fetch_values("SELECT id FROM body WHERE payload = '' ORDER BY id") == ids[100:150]
    files = [pq.read_table(path, columns=["id", "payload"]).to_pylist() for path in archived_files("messages")]
    assert sorted((row["id"], row["payload"]) for some in files for row in some) == [(one, b"") for one in ids[:100]]
    kept = {path for (path,) in fetch_rows("SELECT path FROM archive_file")}
    assert {str(path.relative_to(settings.ARCHIVE)) for path in Path(settings.ARCHIVE).rglob("*.parquet*")} == kept


def test_an_erasure_goes_on_after_a_kill(test_database_url: str) -> None:
    dice = random.Random(7)
    ids = put(MESSAGES)
    fail(ids[:150])
    left_alone(ids[:160])
    request_archive_run(principal=SYSTEM)
    finished(test_database_url)
    request_erasure({"message_id": [f"m-{n}" for n in range(10, 40)]}, reason="r", principal=SYSTEM)
    for _ in range(2):
        struck(test_database_url, dice)
        LongRun.objects.update(resumes_at=None)
    finished(test_database_url)
    files = [pq.read_table(path, columns=["id"]).column(0).to_pylist() for path in archived_files("messages")]
    archived = sorted(one for some in files for one in some)
    erased = fetch_values("SELECT id FROM erased_message ORDER BY id")
    assert len(erased) == 30
    assert archived == sorted(set(ids[:150]) - set(erased))
    assert recorded_results(1) == {"skipped": 160}
    numbers = fetch_values("SELECT unnest(message_ids) FROM archived_result")
    assert sorted(numbers) == archived
    kept = {path for (path,) in fetch_rows("SELECT path FROM archive_file")}
    assert {str(path.relative_to(settings.ARCHIVE)) for path in Path(settings.ARCHIVE).rglob("*.parquet*")} == kept
    assert wrong_counters() == []
