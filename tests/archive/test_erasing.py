"""Erased messages are in no table and in no file; a tombstone says who had them erased, and why."""

from datetime import timedelta
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.conf import settings
from django.db.models.functions import Now
from pyspark.sql import SparkSession

from poisonadmin.archive.commands.erasing import Erasable, NotWhatWasSeen, count_erasable, request_erasure
from poisonadmin.archive.commands.holds import NothingNamed, hold
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.archive.queries import ErasureResult, ErasureRow, get_erasure
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.messages.queries.archived_index import MessageErased, archived_files
from poisonadmin.messages.queries.counts import wrong_counters
from poisonadmin.reports.commands import files
from poisonadmin.reports.commands.requests import remove_expired_files
from poisonadmin.runs.commands.requests import remove_expired_runs
from poisonadmin.runs.domain.kinds import QUOTING
from poisonadmin.search.deep.commands.requests import remove_hits_without_search
from poisonadmin.store.models.archive import LegalHold
from poisonadmin.store.models.run import LongRun
from poisonadmin.store.models.search import SearchHit
from tests.archive.fixtures import archive, erase_with, fail, place, put, rows_of  # noqa: F401  (a fixture)
from tests.fixtures.decisions import quarantine
from workers.spark.jobs.archive import SparkArchiveStore
from workers.spark.tables.source import Extent, read_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place")]
AN_HOUR_ON = Now() + timedelta(hours=1)


def erase(spark: SparkSession, **asked) -> ErasureRow:
    made = request_erasure(asked, reason="asked for by the person", principal=SYSTEM)
    erase_with(SparkArchiveStore(spark, settings.ARCHIVE))
    ended = get_erasure(made.id, principal=SYSTEM)
    assert (ended.state, ended.error) == ("succeeded", None)
    return ended


def payloads(place: str) -> set[bytes]:  # noqa: F811
    return {
        bytes(one)
        for path in Path(place).rglob("run=*/messages/**/*.parquet")
        for one in pq.read_table(path).column("payload").to_pylist()
    }


def test_what_is_live_is_erased(spark: SparkSession) -> None:
    final, undecided, waiting = put(3)
    fail([final], days_ago=0)
    quarantine([undecided], principal=SYSTEM, reason="no")
    made = erase(spark, message_id=["m-0", "m-1", "m-2"])
    assert made.result == ErasureResult(erased=2, left_alone=1, held_by=[])
    assert fetch_values("SELECT id FROM message") == [waiting]
    assert not any(rows_of([final, undecided]).values())
    assert wrong_counters() == []
    with pytest.raises(MessageErased, match="by system: asked for by the person"):
        get_message(final, principal=SYSTEM)
    assert made.filter == {}


def test_what_is_archived_is_erased_from_its_files(spark: SparkSession, place: str) -> None:  # noqa: F811
    ids = put(3)
    fail(ids)
    request_archive_run(principal=SYSTEM)
    archive(spark)
    assert payloads(place) == {f"é secret-{n}".encode() for n in range(3)}
    erase(spark, message_id="m-1")
    assert payloads(place) == {f"é secret-{n}".encode() for n in (0, 2)}
    found = read_table(spark, "messages", Extent(files=archived_files("messages")), columns=["id"], tasks=1).collect()
    assert sorted(row.id for row in found) == [ids[0], ids[2]]
    assert len(list(Path(place).rglob("*.parquet"))) == len(archived_files("messages") + archived_files("history"))
    assert fetch_rows("SELECT * FROM archive_left_out") == []
    with pytest.raises(MessageErased):
        get_message(ids[1], principal=SYSTEM)


def test_the_old_files_of_a_restored_message_lose_it_too(spark: SparkSession, place: str) -> None:  # noqa: F811
    ids = put(2)
    fail(ids)
    request_archive_run(principal=SYSTEM)
    archive(spark)
    restore_from_archive(ids[0], reason="look", principal=SYSTEM)
    erase(spark, message_id="m-0")
    assert payloads(place) == {"é secret-1".encode()}
    assert fetch_values("SELECT count(*) FROM message") == [0]


def test_what_a_hold_names_is_not_erased(spark: SparkSession) -> None:
    live, archived = put(1, "orders.eu"), put(1, "orders.us", "n")
    fail(live, days_ago=0)
    fail(archived)
    request_archive_run(principal=SYSTEM)
    archive(spark)
    hold({"address": "invoices.#"}, reason="another lawsuit", principal=SYSTEM)
    assert count_erasable({"address": "orders.#"}, principal=SYSTEM) == Erasable(live=1, archived=1, left_alone=0)
    held = [hold({"address": one}, reason="lawsuit", principal=SYSTEM).id for one in ("orders.#", "orders.us")]
    assert count_erasable({"address": "orders.#"}, principal=SYSTEM) == Erasable(live=0, archived=0, left_alone=2)
    made = erase(spark, address="orders.#")
    assert made.result == ErasureResult(erased=0, left_alone=2, held_by=held)
    assert get_message(archived[0], principal=SYSTEM).archived


def test_a_hold_that_nobody_can_apply_is_refused_and_an_older_one_is_named(spark: SparkSession) -> None:
    for words in ('payload:"x"', "received:1m", "!failed:24h"):
        with pytest.raises(InvalidFilter):
            hold({"q": words}, reason="lawsuit", principal=SYSTEM)
    made = hold({"address": "orders.#"}, reason="lawsuit", principal=SYSTEM)
    LegalHold.objects.filter(id=made.id).update(filter={"q": ["payload:x"]})
    waiting = request_erasure({"address": "invoices.#"}, reason="asked for", principal=SYSTEM)
    erase_with(SparkArchiveStore(spark, settings.ARCHIVE))
    found = get_erasure(waiting.id, principal=SYSTEM)
    assert (found.state, f"legal hold {made.id} cannot be applied" in str(found.error)) == ("queued", True)


def test_what_may_quote_an_erased_message_ends(spark: SparkSession, settings, tmp_path: Path) -> None:
    settings.HOME = tmp_path
    fail(put(1))
    common = {"requested_by": "ann", "patterns": []}
    for kind, (state, ended) in product(QUOTING, (("succeeded", Now()), ("running", None))):
        LongRun.objects.create(
            **common, kind=kind, state=state, position={}, account="1", ended_at=ended, expires_at=AN_HOUR_ON
        )
    for report in LongRun.objects.filter(kind="report"):
        (draft := files.draft_of(report.id, "report.csv")).write_text("secret-0")
        files.put(report.id, draft)
    for search in LongRun.objects.filter(kind="search"):
        SearchHit.objects.create(search_id=search.id, message_id=1)
    erase(spark, message_id="m-0")
    for kind in QUOTING:
        runs = LongRun.objects.filter(kind=kind).order_by("id")
        assert [row.state for row in runs] == ["succeeded", "failed"], kind
        assert not runs.filter(expires_at__gt=Now()).exists(), kind
    remove_expired_files()
    remove_expired_runs()
    remove_hits_without_search()
    assert not LongRun.objects.filter(kind__in=QUOTING).exists()
    assert not SearchHit.objects.exists()
    assert not list(tmp_path.rglob("report.csv"))


def test_an_erasure_of_nothing_ends_no_report(spark: SparkSession) -> None:
    LongRun.objects.create(
        kind="search", state="succeeded", position={}, account="1", requested_by="ann", ended_at=Now(),
        expires_at=AN_HOUR_ON,
    )  # fmt: skip
    erase(spark, message_id="nobody")
    assert LongRun.objects.filter(kind="search", expires_at__gt=Now()).exists()


def test_an_erasure_of_another_number_than_was_seen_is_refused() -> None:
    fail(put(2))
    with pytest.raises(NotWhatWasSeen, match="It would erase 2 messages now, not 3; nothing was erased"):
        request_erasure({"address": "orders.#"}, reason="r", principal=SYSTEM, expected=3)
    assert not LongRun.objects.filter(kind="erase").exists()
    assert request_erasure({"address": "orders.#"}, reason="r", principal=SYSTEM, expected=2).id


def test_a_filter_that_the_archive_cannot_answer_erases_nothing() -> None:
    with pytest.raises(InvalidFilter, match="Archived messages cannot be asked for header"):
        request_erasure({"header.n": "1"}, reason="r", principal=SYSTEM)
    with pytest.raises(NothingNamed):
        request_erasure({}, reason="r", principal=SYSTEM)
