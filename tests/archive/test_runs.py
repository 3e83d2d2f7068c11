"""A run of the archive: what goes into files, what stays, and that neither is lost."""

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from pyspark.sql import SparkSession

from poisonadmin.archive.commands import runs
from poisonadmin.archive.commands.holds import hold, lift
from poisonadmin.archive.commands.requests import cancel_archive_run, request_archive_run, request_daily_run
from poisonadmin.archive.queries import ArchiveRunResult, ArchiveRunRow, get_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.archived_index import archived_files
from poisonadmin.messages.queries.counts import wrong_counters
from poisonadmin.runs.commands.requests import RunEnded
from poisonadmin.store.models.archive import ArchivedMessage, ArchiveFile, ArchivePiece
from poisonadmin.store.models.run import LongRun
from tests.archive.fixtures import age, archive, begun, fail, place, put, rows_of  # noqa: F401  (a fixture)
from tests.archive.in_process import InProcessStore
from tests.fixtures.decisions import restore
from workers.spark.tables.columns import ARCHIVED, arrow_schema
from workers.spark.tables.source import Extent, read_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place")]


def run(spark: SparkSession, **asked) -> ArchiveRunRow:
    made = request_archive_run(principal=SYSTEM, **asked)
    archive(spark)
    return get_run(made.id, principal=SYSTEM)


def test_final_messages_go_into_files_and_the_others_stay(spark: SparkSession) -> None:
    old, young, waiting = put(4, "orders.eu"), put(2, "invoices.eu", "i"), put(2, "orders.us", "w")
    fail(old)
    fail(young, days_ago=10)
    made = run(spark)
    assert (made.state, made.error) == ("succeeded", None)
    assert fetch_values("SELECT id FROM message ORDER BY id") == [*young, *waiting]
    assert not any(rows_of(old).values())
    assert list(ArchivedMessage.objects.order_by("id").values_list("id", flat=True)) == old
    assert made.tables["messages"]["rows"] == 4
    assert made.tables["history"]["rows"] == 12
    assert wrong_counters() == []


def test_files_and_live_rows_are_one_table(spark: SparkSession) -> None:
    old, young = put(3), put(2, prefix="y")
    fail(old)
    everything = Extent([IdRange(0, 2**62)])
    before = read_table(spark, "history", everything, tasks=1).orderBy("message_id", "seq").collect()
    run(spark)
    both = Extent(everything.ranges, archived_files("history"))
    assert read_table(spark, "history", both, tasks=2).orderBy("message_id", "seq").collect() == before
    messages = read_table(spark, "messages", Extent(everything.ranges, archived_files("messages")), tasks=2).collect()
    assert sorted(row.id for row in messages) == [*old, *young]
    assert {bytes(row.payload).decode() for row in messages if row.id in old} == {f"é secret-{n}" for n in range(3)}


def test_a_manifest_names_every_file_with_its_checksums(spark: SparkSession, place: str) -> None:  # noqa: F811
    fail(put(3))
    made = run(spark)
    manifest = json.loads(Path(place, f"run={made.id}", "manifest.json").read_text())
    assert {file["table"] for file in manifest["files"]} == {"messages", "history"}
    for file in manifest["files"]:
        assert pq.ParquetFile(Path(place, file["path"])).metadata.num_rows == file["rows"]
        assert "root=orders" in file["path"]
        assert file["day"] in file["path"]
    there = sorted(str(path.relative_to(place)) for path in Path(place).rglob("*.parquet"))
    assert there == sorted(file["path"] for file in manifest["files"])


def test_files_have_the_columns_that_tables_declare(spark: SparkSession) -> None:
    fail(put(1))
    run(spark)
    for table in ARCHIVED:
        for path in archived_files(table.name):
            assert pq.read_schema(path).equals(arrow_schema(table.columns))


def test_a_message_that_changes_after_it_was_written_stays(spark: SparkSession, monkeypatch) -> None:
    ids = put(3)
    fail(ids)
    made = request_archive_run(principal=SYSTEM)
    real = runs.prune

    def restored_first(piece: ArchivePiece, cutoffs: str) -> bool:
        monkeypatch.setattr(runs, "prune", real)
        assert restore([ids[1]], principal=SYSTEM, reason="look again").changed
        return real(piece, cutoffs)

    monkeypatch.setattr(runs, "prune", restored_first)
    archive(spark)
    ended = get_run(made.id, principal=SYSTEM)
    assert ended.state == "succeeded"
    assert fetch_rows("SELECT id, state FROM message") == [(ids[1], "NDLV")]
    assert ended.tables["messages"]["rows"] == 2
    found = read_table(spark, "messages", Extent(files=archived_files("messages")), columns=["id"], tasks=1).collect()
    assert sorted(row.id for row in found) == [ids[0], ids[2]]
    assert wrong_counters() == []


def test_what_is_written_of_a_message_besides_its_state_counts_too(spark: SparkSession, monkeypatch) -> None:
    (message_id,) = put(1)
    fail([message_id])
    request_archive_run(principal=SYSTEM)
    real = runs.prune

    def tagged_first(piece: ArchivePiece, cutoffs: str) -> bool:
        monkeypatch.setattr(runs, "prune", real)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO annotation (message_id, tags) VALUES (%s, '{late}')", [message_id])
        return real(piece, cutoffs)

    monkeypatch.setattr(runs, "prune", tagged_first)
    archive(spark)
    (found,) = read_table(
        spark, "messages", Extent(files=archived_files("messages")), columns=["tags"], tasks=1
    ).collect()
    assert found.tags == '["late"]'


def test_nothing_is_moved_while_somebody_reads(spark: SparkSession) -> None:
    fail(put(2))
    made = request_archive_run(principal=SYSTEM)
    reader = connection.copy()
    try:
        with reader.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock_shared(34, 0)")
        archive(spark)
        waiting = get_run(made.id, principal=SYSTEM)
        assert (waiting.state, waiting.done, waiting.total) == (
            "running",
            0,
            max(fetch_values("SELECT id FROM message")),
        )
        assert fetch_values("SELECT count(*) FROM message") == [2]
        with reader.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock_shared(34, 0)")
    finally:
        reader.close()
    archive(spark)
    assert fetch_values("SELECT count(*) FROM message") == [0]


def test_a_dry_run_counts_and_changes_nothing(spark: SparkSession) -> None:
    fail(put(3), days_ago=10)
    made = run(spark, is_dry_run=True)
    assert made.result == ArchiveRunResult(messages=0)
    later = run(spark, is_dry_run=True, as_of=timezone.now() + timedelta(days=400))
    assert later.result == ArchiveRunResult(messages=3, messages_at={"orders.eu": {"FAIL": 3}})
    assert fetch_values("SELECT count(*) FROM message") == [3]
    assert not ArchiveFile.objects.exists()


def test_what_a_hold_names_is_kept_until_it_is_lifted(spark: SparkSession) -> None:
    kept, others = put(2, "orders.eu"), put(2, "invoices.eu", "i")
    fail([*kept, *others])
    held = hold({"address": "orders.#"}, reason="lawsuit", principal=SYSTEM)
    run(spark)
    assert fetch_values("SELECT id FROM message ORDER BY id") == kept
    lift(held.id, reason="settled", principal=SYSTEM)
    run(spark)
    assert fetch_values("SELECT id FROM message") == []


def test_a_hold_that_is_made_while_files_are_written_holds(spark: SparkSession, monkeypatch) -> None:
    kept, others = put(2, "orders.eu"), put(1, "invoices.eu", "i")
    fail([*kept, *others])
    request_archive_run(principal=SYSTEM)
    real = runs.prune

    def held_first(piece: ArchivePiece, cutoffs: str) -> bool:
        monkeypatch.setattr(runs, "prune", real)
        hold({"address": "orders.#"}, reason="lawsuit", principal=SYSTEM)
        return real(piece, cutoffs)

    monkeypatch.setattr(runs, "prune", held_first)
    archive(spark)
    assert fetch_values("SELECT id FROM message ORDER BY id") == kept


def test_a_cancelled_run_leaves_what_it_has_not_archived(spark: SparkSession) -> None:
    fail(put(2))
    made = request_archive_run(principal=SYSTEM)
    cancel_archive_run(made.id, principal=SYSTEM)
    archive(spark)
    assert get_run(made.id, principal=SYSTEM).state == "cancelled"
    assert fetch_values("SELECT count(*) FROM message") == [2]


def test_a_run_that_is_cancelled_drops_what_is_written_and_not_archived(
    spark: SparkSession,
    place: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail(put(2))
    made = request_archive_run(principal=SYSTEM)
    monkeypatch.setattr(runs, "prune", lambda *_: False)  # somebody reads the tables
    archive(spark)
    assert ArchivePiece.objects.get().state == "written"
    cancel_archive_run(made.id, principal=SYSTEM)
    assert get_run(made.id, principal=SYSTEM).state == "cancelling"
    archive(spark)
    assert get_run(made.id, principal=SYSTEM).state == "cancelled"
    assert ArchivePiece.objects.get().state == "empty"
    assert not ArchiveFile.objects.exists()
    assert not list(Path(place).rglob("*.parquet"))
    assert fetch_values("SELECT count(*) FROM message") == [2]
    with pytest.raises(RunEnded):
        cancel_archive_run(made.id, principal=SYSTEM)


def test_a_run_that_is_cancelled_leaves_no_file_that_a_killed_worker_did_not_note(
    spark: SparkSession,
    place: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    ids = put(4)
    fail(ids[:2])
    archive(spark)
    request_daily_run()
    archive(spark)
    kept = sorted(Path(place).rglob("*.parquet"))
    fail(ids[2:])
    made = request_archive_run(principal=SYSTEM)
    with monkeypatch.context() as patched:
        patched.setattr(runs, "_note", killed)
        with pytest.raises(KeyboardInterrupt):
            archive(spark)
    assert len(sorted(Path(place).rglob("*.parquet"))) > len(kept)
    cancel_archive_run(made.id, principal=SYSTEM)
    archive(spark)
    assert get_run(made.id, principal=SYSTEM).state == "cancelled"
    assert sorted(Path(place).rglob("*.parquet")) == kept
    assert fetch_values("SELECT id FROM message ORDER BY id") == ids[2:]


def test_the_archive_runs_once_a_day_by_itself() -> None:
    request_daily_run()
    request_daily_run()
    assert LongRun.objects.filter(kind="archive").count() == 1


def test_pieces_are_archived_one_after_the_other(spark: SparkSession, monkeypatch) -> None:
    monkeypatch.setattr(runs, "PIECE_MESSAGES", 3)
    ids = put(20)
    fail(ids)
    age(ids[10:], 600)
    made = run(spark)
    assert made.tables["messages"]["rows"] == 20
    assert ArchivePiece.objects.filter(state="archived").count() == 7
    assert fetch_values("SELECT sum(n) FROM day_figure WHERE figure = 'FAIL'") == [20]
    found = read_table(spark, "messages", Extent(files=archived_files("messages")), columns=["id"], tasks=2).collect()
    assert sorted(row.id for row in found) == ids


def test_a_run_is_as_far_as_what_has_left_the_database(place: str) -> None:  # noqa: F811
    turn = begun()
    turn.store(position={"planned": 100})
    for number, state in enumerate(("archived", "written")):
        ArchivePiece.objects.create(
            run_id=turn.run.id, number=number, after_id=50 * number, until_id=50 * (number + 1), state=state
        )
    going = runs._ArchiveTurn(turn, InProcessStore(place))
    assert going._done() == 50
    ArchivePiece.objects.update(state="archived")
    assert going._done() == 100


def test_history_goes_with_an_archived_message_only() -> None:
    (message_id,) = put(1)
    with pytest.raises(DatabaseError, match="Cannot delete rows"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM history WHERE message_id = %s", [message_id])
    with (
        pytest.raises(DatabaseError, match="neither archived nor"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT * FROM forget_kept_rows('history', %s)", [[message_id]])
    assert fetch_values("SELECT count(*) FROM history") == [1]
