"""How a report is made: cancelled, cut off at any line, out of date, over live and archived messages."""

import hashlib
import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pyspark.sql import SparkSession

from poisonadmin.archive.commands.ownership import require_own_archive
from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.reports.commands import carry_out, files, parts
from poisonadmin.reports.commands.carry_out import Collect
from poisonadmin.reports.commands.requests import (
    REPORT,
    ReportElsewhere,
    ReportOver,
    cancel_report,
    download_of,
    remove_expired_files,
    request_report,
)
from poisonadmin.reports.domain.asked import Period, asked_report
from poisonadmin.reports.domain.reading import Reading
from poisonadmin.reports.queries.archived import NotInArchive
from poisonadmin.reports.queries.reports import ReportRow, get_report
from poisonadmin.reports.queries.rows import rows_at_once
from poisonadmin.runs.commands import engine
from poisonadmin.runs.commands.requests import RunEnded, end_runs
from poisonadmin.runs.domain.kinds import QUOTING
from poisonadmin.store.models.access import Access, Audit
from poisonadmin.store.models.archive import ArchiveFile, ArchivePiece
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.run import LongRun
from tests.fixtures.api import make_user
from tests.fixtures.delivery import make_orders_destination
from tests.reports.conftest import Make, directory_of, file_of, report_due, stored
from tests.reports.made import DAY, NOON, attempt, message
from tests.reports.test_kinds import decided
from workers.spark.tables.columns import TABLES, arrow_schema
from workers.spark.tables.source import Extent, read_table

pytestmark = pytest.mark.django_db(transaction=True)


def archive(spark: SparkSession, home: Path, ids: list[int], day: str) -> None:
    """Move messages to the archive, as one of its runs does."""
    run_id = ArchivePiece.objects.count() + 1
    piece = ArchivePiece.objects.create(
        run_id=run_id, number=0, after_id=min(ids) - 1, until_id=max(ids), state="archived"
    )
    extent = Extent([IdRange(one - 1, one) for one in ids])
    for name in ("messages", "attempts", "history"):
        path = home / "archive" / f"{name}-{run_id}.parquet"
        path.parent.mkdir(exist_ok=True)
        table = read_table(spark, name, extent, tasks=1).toArrow().cast(arrow_schema(TABLES[name].columns))
        pq.write_table(table, path)
        ArchiveFile.objects.create(
            run_id=run_id,
            piece=piece,
            table_name=name,
            path=path.name,
            day=day,
            root="orders",
            rows=table.num_rows,
            bytes=path.stat().st_size,
            sha256="",
            rows_sha256="",
            first_id=min(ids),
            last_id=max(ids),
            is_current=True,
        )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        for table, column in (
            ("message", "id"), ("envelope", "id"), ("body", "id"), ("attempt", "message_id"),
            ("history", "message_id"), ("business_key", "message_id"), ("annotation", "message_id"),
        ):  # fmt: skip
            cursor.execute(f"DELETE FROM {table} WHERE {column} = ANY(%s)", [ids])


def some_messages() -> list[int]:
    """Make messages with everything that a report can show, in all kinds of states."""
    headers = {"X-Kind": "it's"} | {name.removeprefix("header."): name[-1] for name in LONG_NAMES}
    ids = [*decided(), message("orders.us", headers=headers, payload="\u00e9"), message(state="DLVD")]
    attempt(ids[0], 1, "failed", error_class="Boom", error_message="no", status_code=503, consumer_version="4.2")
    attempt(ids[0], 2, "delivered", at=NOON + DAY)
    attempt(ids[6], 1, "crashed", error_class="Crash")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO business_key (message_id, name, value) VALUES (%s, 'cust''omer', '77')", [ids[0]])
        cursor.execute("INSERT INTO annotation (message_id, tags) VALUES (%s, '{eu,late}')", [ids[0]])
    return ids


# PostgreSQL cuts names after 63 bytes: these are one to it.
LONG_NAMES = [f"header.{'überweisung-' * 6}{end}" for end in "ab"]
WHOLE = ["failures", "attempts", "decisions"]


REPORTS: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in WHOLE),
    *((kind, {"period": Period(NOON, NOON + DAY)}) for kind in WHOLE),
    ("failures", {"columns": ["id", "header.X-Kind", "key.cust'omer", "tags", "payload", "failed_hour"]}),
    ("failures", {"columns": ["id", *LONG_NAMES]}),
    ("failures", {"group_by": LONG_NAMES, "pivot": "state"}),
    ("failures", {"filter": {"q": ["!tag:late !address:orders.us attempts:<9"]}}),
    ("failures", {"filter": {"address": ["orders.#"], "key.cust'omer": ["77"]}}),
    ("failures", {"filter": {"header.X-Kind": ["it's"]}}),
    ("failures", {"filter": {"failure": ["TimeoutError"], "owner": ["none"], "reason": ["imported"]}}),
    ("failures", {"group_by": ["received_day", "address"], "time_zone": "Asia/Tokyo"}),
    ("attempts", {"group_by": ["outcome", "consumer_version"]}),
    ("redelivery", {}),
    ("time_to_decision", {}),
]


def test_archived_messages_are_in_a_report_as_if_they_were_live(make: Make, spark: SparkSession, home: Path) -> None:
    ids = some_messages()
    before = [rows_at_once(asked_report(kind, **wishes), principal=SYSTEM).rows for kind, wishes in REPORTS]
    archive(spark, home, ids[:2], "2026-03-02")
    archive(spark, home, ids[5:], "2026-03-03")
    for (kind, wishes), rows in zip(REPORTS, before, strict=True):
        row = make(kind, format="parquet", **wishes)
        assert row.error is None
        table = pq.read_table(stored(row.id, FileFormat.PARQUET))
        found = [
            tuple(value.encode() if name == "payload" and value is not None else value for name, value in one.items())
            for one in table.to_pylist()
        ]
        assert rows, (kind, wishes)
        assert sorted(found, key=repr) == sorted(rows, key=repr), (kind, wishes)


def test_no_report_names_a_destination_that_is_kept_for_others(make: Make, spark: SparkSession, home: Path) -> None:
    ids = some_messages()
    make_orders_destination()
    Attempt.objects.update(destination_id=Destination.objects.get().id)
    user = make_user("eve", Role.OPERATOR, ["orders.#"])
    only = principal_of(user.id, "eve", ["orders.#"])
    asked = {"columns": ["id", "destination"], "format": "parquet"}
    archive(spark, home, ids[:2], "2026-03-02")
    for kind in ("failures", "attempts"):
        named = {one["destination"] for one in named_rows(make(kind, **asked))}
        assert named == {"shop"}
        assert {one["destination"] for one in named_rows(make(kind, principal=only, **asked))} == {None}
        at_once = rows_at_once(asked_report(kind, columns=["destination"]), principal=only)
        assert set(at_once.rows) == {(None,)}
        grouped = make(kind, principal=only, group_by=["destination"], format="parquet")
        assert [one["destination"] for one in named_rows(grouped)] == [None]


def test_accounts_take_turns_and_each_ends_its_reports_in_order() -> None:
    asked = asked_report("failures", format="csv")
    eve, bob = (
        replace(principal(name, Role.ADMIN), account=f"user {make_user(name, Role.ADMIN, []).id}")
        for name in ("eve", "bob")
    )
    first, second, other = (request_report(asked, principal=one) for one in (eve, eve, bob))

    def taken() -> int:
        run = engine._take(REPORT, "tests")
        assert run is not None
        return run.id

    assert [taken() for _ in range(4)] == [first, other, first, other]
    third = request_report(asked, principal=eve)
    LongRun.objects.filter(id=first).update(state="succeeded", ended_at=Now())
    assert [taken() for _ in range(3)] == [second, other, second]
    LongRun.objects.filter(id=second).update(state="succeeded", ended_at=Now())
    assert [taken() for _ in range(2)] == [other, third]


def named_rows(row: ReportRow) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(stored(row.id, FileFormat.PARQUET)).to_pylist()
    assert found
    return found


def test_archived_messages_stay_within_the_scope(make: Make, spark: SparkSession, home: Path) -> None:
    ids = some_messages()
    archive(spark, home, ids[4:], "2026-03-02")
    user = make_user("eve", Role.OPERATOR, ["*.us"])
    only = principal_of(user.id, "eve", ["*.us"])
    row = make("failures", columns=["address"], format="parquet", principal=only)
    assert pq.read_table(stored(row.id, FileFormat.PARQUET)).to_pylist() == [{"address": "orders.us"}]


def principal_of(user_id: int, name: str, patterns: list[str]) -> Principal:
    from dataclasses import replace

    return replace(principal(name, Role.OPERATOR, patterns), account=f"user {user_id}", user=f"user {user_id}")


def test_what_archived_messages_cannot_say_is_refused_by_its_name(
    spark: SparkSession, read: Collect, home: Path
) -> None:
    ids = some_messages()
    archive(spark, home, ids[:1], "2026-03-02")
    asked = {"filter": {"consumer_version": ["4.2"]}}
    with pytest.raises(NotInArchive) as refused:
        request_report(asked_report("failures", **asked), principal=SYSTEM)
    assert refused.value.parameter == "consumer_version"
    recent = Period(NOON + 2 * DAY)
    assert request_report(asked_report("failures", period=recent, **asked), principal=SYSTEM)


def rows_in(report_id: int) -> list[int]:
    return [one["id"] for one in pq.read_table(stored(report_id, FileFormat.PARQUET)).to_pylist()]


def test_rows_that_move_to_the_archive_meanwhile_are_neither_lost_nor_doubled(
    read: Collect, spark: SparkSession, home: Path
) -> None:
    ids = [message() for _ in range(14)]
    asked = asked_report("failures", columns=["id"], format="parquet")
    report_id = request_report(asked, principal=SYSTEM)
    report_due(read, seconds=0.01)
    assert LongRun.objects.get(id=report_id).position["parts"] == 1
    archive(spark, home, [ids[0], ids[12]], "2026-03-02")
    report_due(read, seconds=300)
    assert sorted(rows_in(report_id)) == ids


@pytest.mark.parametrize("written_as", ["csv", "xlsx"])
def test_a_report_that_gives_way_after_every_step_has_every_row(
    read: Collect, monkeypatch: pytest.MonkeyPatch, written_as: str
) -> None:
    monkeypatch.setattr(parts, "BATCH_ROWS", 4)
    for _ in range(14):
        message()
    report_id = request_report(asked_report("failures", columns=["id"], format=written_as), principal=SYSTEM)
    monkeypatch.setattr(carry_out, "REPORT", replace(REPORT, slice_seconds=0.0))
    report_due(read, seconds=300)
    assert file_of(get_report(report_id, principal=SYSTEM)).rows == 14


class Killed(BaseException):
    """The end of the worker, at some line."""


@pytest.mark.parametrize("at", range(1, 9))
def test_a_worker_that_dies_at_any_line_costs_no_row_and_doubles_none(
    read: Collect, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    ids = [message() for _ in range(14)]
    asked = asked_report("failures", columns=["id"], format="parquet")
    report_id = request_report(asked, principal=SYSTEM)
    steps = 0

    def dies(name: str, module: Any) -> None:
        does = getattr(module, name)

        def step(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == at:
                raise Killed
            return does(*arguments, **named)

        monkeypatch.setattr(module, name, step)

    with monkeypatch.context():
        for name in ("store", "finish"):
            dies(name, engine.RunTurn)
        dies("_keep", carry_out)
        for name in ("put", "sha256_of", "remove_parts"):
            dies(name, files)
        with pytest.raises(Killed):
            report_due(read, seconds=300)
    carry_out._being_made.clear()
    report_due(read, seconds=300)
    assert (file_of(get_report(report_id, principal=SYSTEM)).rows, rows_in(report_id)) == (14, ids)
    assert [one.name for one in directory_of(report_id).iterdir() if not one.name.startswith("part")] == [
        "report.parquet"
    ]


def test_a_worker_that_is_killed_in_the_middle_is_followed_by_another(
    read: Collect, test_database_url: str, home: Path
) -> None:
    ids = [message() for _ in range(14)]
    report_id = request_report(asked_report("failures", columns=["id"], format="parquet"), principal=SYSTEM)
    connection.close()
    child = os.fork()
    if child == 0:
        waves = 0

        def read_and_die(reading: Reading) -> Any:
            nonlocal waves
            waves += 1
            if waves == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            # Without Spark, whose gateway is the parent's.
            import adbc_driver_postgresql.dbapi as adbc
            import pyarrow as pa

            with adbc.connect(test_database_url, autocommit=True) as session, session.cursor() as cursor:
                tables = []
                for statement in reading.statements:
                    cursor.execute(statement)
                    tables.append(cursor.fetch_arrow_table())
            return pa.concat_tables(tables).select(["id"]).sort_by("id")

        report_due(read_and_die, worker="first", seconds=300)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    row = LongRun.objects.get(id=report_id)
    assert (row.state, row.position["parts"]) == ("running", 1)
    report_due(read, worker="second", seconds=300)
    assert rows_in(report_id) == ids


def test_a_report_that_is_cancelled_ends_and_leaves_no_file(read: Collect) -> None:
    for _ in range(14):
        message()
    report_id = request_report(asked_report("failures", format="csv"), principal=SYSTEM)
    report_due(read, seconds=0.01)
    assert directory_of(report_id).exists()
    cancel_report(report_id, principal=SYSTEM)
    with pytest.raises(RunEnded):
        cancel_report(report_id, principal=SYSTEM)
    report_due(read, seconds=300)
    remove_expired_files()
    assert LongRun.objects.get(id=report_id).state == "cancelled"
    assert not directory_of(report_id).exists()
    assert Audit.objects.filter(action="report.cancelled").count() == 1


def test_the_file_of_a_report_that_is_ended_while_it_is_written_is_let_go_of(
    read: Collect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "BATCH_ROWS", 4)
    for _ in range(14):
        message()
    report_id = request_report(asked_report("failures", format="csv"), principal=SYSTEM)
    while not carry_out._being_made:
        report_due(read, seconds=0.01)
    with connection.cursor() as cursor:
        end_runs(cursor, QUOTING, why="Messages were erased.")
    carry_out.give_up_ended()
    assert carry_out._being_made == {}
    assert remove_expired_files() == [report_id]
    with pytest.raises(NotFound):
        get_report(report_id, principal=SYSTEM)


def test_two_workers_of_one_home_make_one_whole_file(read: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BATCH_ROWS", 4)
    for _ in range(14):
        message()
    report_id = request_report(asked_report("failures", format="json"), principal=SYSTEM)
    while not carry_out._being_made:
        report_due(read, seconds=0.01)
    of_the_first = carry_out._being_made.copy()
    carry_out._being_made.clear()
    monkeypatch.setattr(files, "_PROCESS", "the second")
    report_due(read, seconds=300)
    for making in of_the_first.values():
        making.file.close()  # it lets go of what it has begun, which ends that file
    content = stored(report_id, FileFormat.JSON).read_bytes()
    assert len(json.loads(content)) == 14
    assert hashlib.sha256(content).hexdigest() == file_of(get_report(report_id, principal=SYSTEM)).sha256


def test_a_file_that_was_begun_of_former_parts_is_begun_anew(read: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BATCH_ROWS", 4)
    ids = [message() for _ in range(14)]
    asked = asked_report("failures", columns=["id"], format="parquet")
    report_id = request_report(asked, principal=SYSTEM)
    while not carry_out._being_made:
        report_due(read, seconds=0.01)
    [making] = carry_out._being_made.values()
    making.position = replace(making.position, archive="former")
    making.file.close()  # it has nothing of the parts of today
    report_due(read, seconds=300)
    assert rows_in(report_id) == ids


def test_a_file_is_for_nobody_else_and_goes_when_it_expires(make: Make) -> None:
    message()
    row = make("failures", format="csv")
    path = stored(row.id, FileFormat.CSV)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [one.name for one in path.parent.iterdir()] == ["report.csv"]
    content, name = download_of(row.id, principal=SYSTEM)
    assert (name, b"".join(content.slices)) == (f"failures-{row.id}.csv", path.read_bytes())
    assert Audit.objects.get(action="report.downloaded").details["sha256"] == file_of(row).sha256
    assert remove_expired_files() == []
    assert path.exists()
    run = LongRun.objects.get()
    LongRun.objects.update(result={**run.result, "file_until": NOON.isoformat()})
    assert remove_expired_files() == [row.id]
    assert not path.exists()
    with pytest.raises(ReportOver):
        download_of(row.id, principal=SYSTEM)


def test_a_file_that_another_machine_has_is_named_with_its_place_and_its_maker(make: Make) -> None:
    message()
    row = make("failures", format="csv")
    path = stored(row.id, FileFormat.CSV)
    path.unlink()
    with pytest.raises(
        ReportElsewhere, match=f"^tests made the file of report {row.id}, .* does not reach it .{path}.: "
    ):
        download_of(row.id, principal=SYSTEM)
    assert Audit.objects.filter(action="report.downloaded").count() == 0


def test_a_report_whose_archive_files_are_not_there_names_the_first_one(
    make: Make, spark: SparkSession, home: Path
) -> None:
    archive(spark, home, some_messages()[:2], "2026-03-02")
    require_own_archive()
    for file in (home / "archive").glob("*.parquet"):
        file.unlink()
    with pytest.raises(Exception, match="of the archive"):
        make("failures", format="csv")
    error = str(LongRun.objects.get().error)
    assert re.search(
        rf"ArchiveFileMissing: \S+ has no file {home}/archive/\S+\.parquet of the archive; check", error
    ), error


def test_who_has_lost_rights_gets_no_rows(make: Make, read: Collect) -> None:
    message()
    user = make_user("eve", Role.OPERATOR, [])
    report_id = request_report(asked_report("failures", format="csv"), principal=principal_of(user.id, "eve", []))
    Access.objects.filter(user=user).update(address_patterns=["orders.us"])
    report_due(read, seconds=300)
    row = LongRun.objects.get(id=report_id)
    assert row.state == "failed"
    assert "limited to other addresses" in str(row.error)
    assert not directory_of(report_id).exists()


def test_an_error_ends_a_report_and_lets_the_next_one_go_on(read: Collect) -> None:
    message()
    first = request_report(asked_report("failures", format="csv"), principal=SYSTEM)
    second = request_report(asked_report("attempts", format="csv"), principal=SYSTEM)

    def fails(reading: Reading) -> Any:
        if reading.asked.kind == "failures":
            raise ValueError("no rows today")
        return read(reading)

    with pytest.raises(ValueError, match="no rows today"):
        report_due(fails, seconds=300)
    report_due(fails, seconds=300)
    assert [LongRun.objects.get(id=one).state for one in (first, second)] == ["failed", "succeeded"]
    assert LongRun.objects.get(id=first).error == "ValueError: no rows today"
