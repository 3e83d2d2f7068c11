"""Results of operations go to the archive with their messages; ledgers and the lists behind them stay as they are."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from pyspark.sql import SparkSession

from poisonadmin.archive.commands import runs
from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.archive.queries import ArchiveRunRow, get_erasure, get_run
from poisonadmin.core.commands.exports.formats import csv_chunks
from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.ledger_report import COLUMNS, ledger_rows
from poisonadmin.decisions.operations.queries.operations import get_operation, list_operation_members
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.messages.queries.archived_index import archived_files
from poisonadmin.search.queries.selections import get_selection, list_members
from poisonadmin.store.models.archive import ArchivePiece
from poisonadmin.store.models.operation import OperationResult
from tests.archive.fixtures import age, archive_with, erase_with, in_process, place  # noqa: F401  (fixtures)
from tests.archive.in_process import InProcessStore
from tests.fixtures.api import Caller, take_dead
from tests.fixtures.decisions import mark_fail
from tests.fixtures.delivery import answer, claim, end_nodes, make_destination
from tests.fixtures.pages import html_of
from tests.operations.follow import approve_all, ledger
from workers.spark.tables.source import Extent, read_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place", "in_process")]
LIMITED = principal("kim", Role.OPERATOR, ["orders.#"])


def approved() -> tuple[int, int, int, int]:
    """Approve three messages; return the operation, and those delivered, failed again, and left alone."""
    make_destination(max_delivery_attempts=1)
    delivered, failed, nowhere = take_dead(), take_dead(), take_dead("parked.x")
    operation = approve_all()
    taken = claim()
    answer([delivered])
    answer([failed], "failed", fingerprint="e" * 16, title="Other: failure")
    end_nodes(taken)
    settle()
    return operation, delivered, failed, nowhere


def given_up() -> tuple[int, int, int, int]:
    """The same, with all of them final for long."""
    operation, *members = approved()
    assert mark_fail(members[1:], principal=SYSTEM, reason="no").changed
    age(members, 500)
    return operation, *members  # type: ignore[return-value]


def archive() -> ArchiveRunRow:
    made = request_archive_run(principal=SYSTEM)
    archive_with(InProcessStore(settings.ARCHIVE))
    ended = get_run(made.id, principal=SYSTEM)
    assert (ended.state, ended.error) == ("succeeded", None)
    return ended


def erase(**asked: str) -> None:
    made = request_erasure(asked, reason="asked for by the person", principal=SYSTEM)
    erase_with(InProcessStore(settings.ARCHIVE))
    ended = get_erasure(made.id, principal=SYSTEM)
    assert (ended.state, ended.error) == ("succeeded", None)


def behind(operation: int, *, who: Principal = SYSTEM, limit: int = 50) -> dict[str, list[int]]:
    """Return the ids behind each line of the ledger, read page by page."""
    found = get_operation(operation, principal=SYSTEM)
    lines: dict[str, list[int]] = {}
    for outcome in MemberOutcome:
        cursor, ids = None, []
        while True:
            page = list_operation_members(found, outcome, principal=who, cursor=cursor, limit=limit)
            ids += [row.id for row in page.results]
            cursor = page.next
            if cursor is None:
                break
        if ids:
            lines[str(outcome)] = ids
    return lines


def as_csv(operation: int, *, who: Principal = SYSTEM) -> list[dict[str, str]]:
    chunks = csv_chunks(COLUMNS, ledger_rows(get_operation(operation, principal=SYSTEM), principal=who))
    return list(csv.DictReader(io.StringIO(b"".join(chunks).decode(), newline="")))


def filed_ids() -> list[int]:
    files = [pq.read_table(path, columns=["message_id"]).column(0).to_pylist() for path in archived_files("results")]
    return sorted(one for some in files for one in some)


@pytest.mark.conformance("OP-g", "R16")
def test_an_operation_is_shown_the_same_when_its_members_are_archived() -> None:
    operation, delivered, failed, nowhere = given_up()
    before = get_operation(operation, principal=SYSTEM)
    lines, table = behind(operation), as_csv(operation)
    made = archive()
    assert made.tables["results"]["rows"] == 3
    assert fetch_values("SELECT count(*) FROM message") == [0]
    assert not OperationResult.objects.exists()
    assert get_operation(operation, principal=SYSTEM) == before
    assert ledger(operation) == {"delivered": 1, "failed_new": 1, "skipped": 1}
    assert behind(operation) == lines == {"delivered": [delivered], "failed_new": [failed], "skipped": [nowhere]}
    assert as_csv(operation) == table
    selection = get_selection(before.selection_id, principal=SYSTEM)
    members = list_members(selection, principal=SYSTEM).results
    assert [(row.id, row.archived) for row in members] == [(one, True) for one in (delivered, failed, nowhere)]
    assert members[0].address == "orders.eu"


def test_members_are_paged_across_what_is_live_and_what_is_archived() -> None:
    ids = [take_dead() for _ in range(7)]
    operation = begin({"state": ["NDLV"]}, OperationAction.FAIL, reason="r", principal=SYSTEM)
    table = as_csv(operation)
    age(ids[1::2], 500)
    archive()
    assert len(fetch_values("SELECT id FROM message")) == 4
    assert behind(operation, limit=2) == {"changed": ids}
    assert ledger(operation) == {"changed": 7}
    assert as_csv(operation) == table


def test_members_out_of_scope_stay_so_when_they_are_archived() -> None:
    operation, delivered, failed, _ = given_up()
    archive()
    assert behind(operation, who=LIMITED) == {"delivered": [delivered], "failed_new": [failed]}
    assert [row["address"] for row in as_csv(operation, who=LIMITED)] == ["orders.eu", "orders.eu", ""]


def test_page_and_api_list_archived_members(operator_browser: Client, admin: Caller) -> None:
    operation, delivered, _, _ = given_up()
    archive()
    (listed,) = admin.get(f"operations/{operation}/members/?outcome=delivered").json()["results"]
    assert (listed["id"], listed["archived"]) == (str(delivered), True)
    assert admin.get(f"operations/{operation}/").json()["ledger"]["delivered"] == 1
    shown = html_of(operator_browser.get(f"/operations/{operation}/members/delivered/"))
    assert f"#{delivered}" in shown
    assert ">archived<" in shown


def test_a_restored_member_has_its_result_and_the_ledger_counts_it_once() -> None:
    operation, delivered, failed, nowhere = given_up()
    results = fetch_rows("SELECT to_jsonb(r)::text FROM operation_result AS r ORDER BY message_id")
    archive()
    restore_from_archive(failed, reason="look again", principal=SYSTEM)
    kept = fetch_rows("SELECT to_jsonb(r)::text FROM operation_result AS r")
    assert kept == [results[1]]
    expected = {"delivered": [delivered], "failed_new": [failed], "skipped": [nowhere]}
    assert behind(operation) == expected
    assert ledger(operation) == {"delivered": 1, "failed_new": 1, "skipped": 1}
    assert mark_fail([failed], principal=SYSTEM, reason="no").changed
    age([failed], 500)
    archive()
    assert behind(operation) == expected
    assert ledger(operation) == {"delivered": 1, "failed_new": 1, "skipped": 1}


def test_an_erased_member_is_counted_and_its_number_is_in_no_result(place: str) -> None:  # noqa: F811
    operation, delivered, failed, nowhere = given_up()
    archive()
    erase(message_id=fetch_values("SELECT message_id FROM archived_message WHERE id = %s", [failed])[0])
    assert ledger(operation) == {"delivered": 1, "failed_new": 1, "skipped": 1}
    assert behind(operation) == {"delivered": [delivered], "skipped": [nowhere]}
    assert [row["id"] for row in as_csv(operation)] == [str(delivered), str(nowhere)]
    assert filed_ids() == [delivered, nowhere]
    assert len(list(Path(place).rglob("run=*/results/**/*.parquet"))) == len(archived_files("results"))
    assert sorted(fetch_values("SELECT unnest(message_ids) FROM archived_result")) == [delivered, nowhere]


def test_a_live_member_that_is_erased_is_counted_too() -> None:
    operation, delivered, failed, nowhere = approved()
    erase(message_id=fetch_values("SELECT message_id FROM envelope WHERE id = %s", [delivered])[0])
    assert ledger(operation) == {"delivered": 1, "failed_new": 1, "skipped": 1}
    assert behind(operation) == {"failed_new": [failed], "skipped": [nowhere]}
    assert sorted(OperationResult.objects.values_list("message_id", flat=True)) == [failed, nowhere]
    assert fetch_rows("SELECT outcome, n, message_ids FROM archived_result") == [("delivered", 1, [])]


def test_a_result_that_changes_after_it_was_written_is_archived_as_it_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    operation, delivered, _, _ = given_up()
    real = runs.prune

    def confirmed_first(piece: ArchivePiece, cutoffs: str) -> bool:
        monkeypatch.setattr(runs, "prune", real)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE operation_result SET outcome = 'confirmed' WHERE message_id = %s", [delivered])
        return real(piece, cutoffs)

    monkeypatch.setattr(runs, "prune", confirmed_first)
    archive()
    assert ledger(operation) == {"confirmed": 1, "failed_new": 1, "skipped": 1}
    outcomes = [pq.read_table(path, columns=["outcome"]).column(0).to_pylist() for path in archived_files("results")]
    assert sorted(one for some in outcomes for one in some) == ["confirmed", "failed_new", "skipped"]


def test_results_are_one_table_of_live_rows_and_files(spark: SparkSession) -> None:
    operation, *members = given_up()
    age(members[:1], 1)
    ranges = [IdRange(0, 2**62)]

    def results(files: Sequence[str]) -> list[object]:
        return read_table(spark, "results", Extent(ranges, files), tasks=2).orderBy("message_id").collect()

    before = results([])
    assert [(row.operation_id, row.message_id) for row in before] == [(operation, one) for one in members]  # type: ignore[attr-defined]
    archive()
    assert OperationResult.objects.count() == 1
    assert results(archived_files("results")) == before


def test_who_has_patched_an_archived_message_is_known_when_its_payload_goes() -> None:
    """What an operation wrote in place of a payload goes with the payload, also when the result is archived."""
    make_destination(max_delivery_attempts=1)
    message = take_dead()
    operation = begin(
        {"state": ["NDLV"]},
        OperationAction.PATCH,
        reason="r",
        params={"payload": '{"secret": 7}'},
        principal=SYSTEM,
    )
    taken = claim()
    answer([message])
    end_nodes(taken)
    settle()
    age([message], 500)
    archive()
    assert not OperationResult.objects.exists()
    erase(message_id=fetch_values("SELECT message_id FROM archived_message")[0])
    assert "payload" not in fetch_rows("SELECT params::text FROM operation WHERE id = %s", [operation])[0][0]
