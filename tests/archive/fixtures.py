"""Messages that are final, and a run of the archive."""

from collections.abc import Sequence

import pytest
from django.conf import settings
from django.db import connection
from pyspark.sql import SparkSession

from poisonadmin.archive.commands import erasing, runs
from poisonadmin.archive.commands.requests import ARCHIVE_RUN, request_archive_run
from poisonadmin.archive.commands.rewriting import FileStore
from poisonadmin.archive.commands.runs import ArchiveStore
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.runs.commands.engine import RunTurn, RunWork, carry_out
from tests.fixtures.decisions import mark_fail, quarantine
from workers.spark.jobs.archive import SparkArchiveStore


@pytest.fixture
def place(tmp_path, settings) -> str:
    settings.ARCHIVE = str(tmp_path / "archive")
    return settings.ARCHIVE


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, test_database_url: str) -> None:
    """Let `InProcessStore` write what is in the tests' database."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)


def put(count: int, address: str = "orders.eu", prefix: str = "m") -> list[int]:
    lines = b"".join(
        b'{"address": "%s", "message_id": "%s-%d", "payload": "\\u00e9 secret-%d", "headers": {"n": "%d"}}\n'
        % (address.encode(), prefix.encode(), n, n, n)
        for n in range(count)
    )
    assert accept_stream([lines], principal=SYSTEM).accepted == count
    return sorted(fetch_values("SELECT id FROM message ORDER BY id DESC LIMIT %s", [count]))


def fail(ids: Sequence[int], days_ago: int = 500) -> None:
    """Give messages up, as if it had been so long ago."""
    quarantine(ids, principal=SYSTEM, reason="no")
    assert mark_fail(ids, principal=SYSTEM, reason="given up").changed
    age(ids, days_ago)


def age(ids: Sequence[int], days: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET state_at = now() - %s * interval '1 day' WHERE id = ANY(%s)", [days, ids])


def archive(spark: SparkSession, seconds: float = 60) -> None:
    archive_with(SparkArchiveStore(spark, settings.ARCHIVE), seconds=seconds)


def archive_with(store: ArchiveStore, seconds: float = 60) -> None:
    """Have a worker carry out the runs of the archive that are due."""
    carry_out(runs.work(store), worker="batch", seconds=seconds)


def begun() -> RunTurn:
    """Request a run of the archive, and return a turn that has it."""
    turns: list[RunTurn] = []
    request_archive_run(principal=SYSTEM)
    carry_out(RunWork(ARCHIVE_RUN, turns.append), worker="tests")
    return turns[0]


def erase_with(store: FileStore, seconds: float = 60) -> None:
    """Have a worker carry out the erasures that are due."""
    carry_out(erasing.work(store), worker="batch", seconds=seconds)


TABLES = [
    "message",
    "envelope",
    "body",
    "attempt",
    "history",
    "hop",
    "confirmation",
    "annotation",
    "payload_version",
]


def rows_of(ids: Sequence[int]) -> dict[str, list[str]]:
    """Return every row that the database has of messages, as text."""
    found = {}
    for table in TABLES:
        key = "id" if table in ("message", "envelope", "body") else "message_id"
        # A message that is restored has an annotation of another id.
        row = "to_jsonb(one) - 'id'" if table == "annotation" else "to_jsonb(one)"
        sql = f"SELECT ({row})::text FROM {table} AS one WHERE {key} = ANY(%s) ORDER BY 1"
        found[table] = [row[0] for row in fetch_rows(sql, [list(ids)])]
    return found
