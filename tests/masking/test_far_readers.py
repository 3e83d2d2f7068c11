"""Files of reports, live and archived, comparisons, the log and Spark's event log hold nothing that is masked."""

import contextlib
import logging
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.comparisons.commands.requests import request_comparison
from poisonadmin.comparisons.queries.comparisons import get_comparison
from poisonadmin.core.commands.authentication import principal_of_user
from poisonadmin.core.domain.access import SYSTEM, Principal, Role
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.search.deep.commands.requests import request_search
from poisonadmin.search.deep.commands.searching import Searching
from poisonadmin.store.models.archive import ArchivedMessage
from poisonadmin.store.models.message import Message
from tests.archive.fixtures import age, archive
from tests.comparisons.incident import compare_due, incident
from tests.fixtures.api import Caller, make_user
from tests.fixtures.decisions import mark_fail
from tests.fixtures.pages import dead_letter
from tests.masking.planted import ADDRESS, BODY, CANARY, HEADERS, LETTER, mask, plant
from tests.masking.test_canary import REPORT
from tests.reports.conftest import Make, file_of, home, make, read, stored  # noqa: F401  (fixtures)
from tests.searches.plain import search_due
from workers.spark.jobs.compare import compare
from workers.spark.jobs.search import find

pytestmark = pytest.mark.django_db(transaction=True)
FORMATS = list(FileFormat)


def reader(role: Role) -> Principal:
    found = principal_of_user(make_user(f"{role}-reads", role, []))
    assert found is not None
    return found


def archived(spark: SparkSession, ids: list[int]) -> None:
    assert len(mark_fail(ids, principal=SYSTEM, reason="given up").changed) == len(ids)
    age(ids, 500)
    request_archive_run(principal=SYSTEM)
    archive(spark, seconds=600)
    assert ArchivedMessage.objects.filter(id__in=ids).count() == len(ids)


@contextlib.contextmanager
def event_log(spark: SparkSession, directory: Path) -> Iterator[None]:
    """Write what Spark's history server would show of the jobs meanwhile."""
    context = spark.sparkContext
    jvm, scala_context = context._jvm, context._jsc.sc()
    assert jvm is not None
    conf = scala_context.conf().clone()
    for name in ("compress", "rolling.enabled"):
        conf.set(f"spark.eventLog.{name}", "false")
    place = jvm.java.net.URI(directory.as_uri())
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener("masking", jvm.scala.Option.empty(), place, conf)
    listener.start()
    scala_context.listenerBus().addToEventLogQueue(listener)
    yield
    scala_context.listenerBus().waitUntilEmpty()
    scala_context.listenerBus().removeListener(listener)
    listener.stop()


def content_of(path: Path) -> str:
    if path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as book:
            return "".join(book.read(name).decode() for name in book.namelist())
    return str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_text()


@pytest.mark.parametrize("written_as", FORMATS)
def test_a_file_of_a_report_is_masked(make: Make, written_as: str) -> None:  # noqa: F811
    plant()
    mask("planted.#", "admin")
    columns, asked_filter = REPORT["columns"], REPORT["filter"]
    for role, is_clear in ((Role.ADMIN, True), (Role.OPERATOR, False)):
        row = make("failures", principal=reader(role), columns=columns, filter=asked_filter, format=written_as)
        assert file_of(row).rows == 3
        content = content_of(stored(row.id, FileFormat(written_as)))
        assert (CANARY in content) is is_clear, role
        assert ("[masked:" in content) is not is_clear, role


def test_nothing_of_messages_is_in_the_log_or_in_the_event_log_of_spark(
    make: Make,  # noqa: F811
    home: Path,  # noqa: F811
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plant()
    gone = dead_letter(ADDRESS, payload=BODY, headers=HEADERS, dead_letter=LETTER)
    directory = tmp_path / "events"
    directory.mkdir()
    searching = Searching(partial(find, spark), lambda path: str(home / "archive" / path))
    by = reader(Role.OPERATOR)
    with caplog.at_level(logging.DEBUG), event_log(spark, directory):
        for query in ("payload:plain", "payload.$.open:plain", "header.X-Open:plain"):
            request_search({"q": [query]}, principal=by)
        search_due(searching)
        make("failures", principal=by, columns=REPORT["columns"], filter=REPORT["filter"], format="xlsx")
        request_comparison(message_filter={"state": ["NDLV"]}, against={"state": ["DLVD", "NDLV"]}, principal=by)
        compare_due(partial(compare, spark), seconds=600)
        archived(spark, [gone.id])
        make("failures", principal=by, columns=REPORT["columns"], filter=REPORT["filter"], format="xlsx")
        request_search({"q": ["payload:plain"]}, principal=by)
        search_due(searching)
    (events,) = directory.iterdir()
    text = events.read_text()
    assert text.count("SparkListenerJobEnd") >= 5
    assert CANARY not in text
    assert CANARY not in caplog.text


def test_what_is_archived_is_masked_where_it_was_and_not_found_by_what_is_masked(
    make: Make,  # noqa: F811
    spark: SparkSession,
    admin: Caller,
    operator: Caller,
) -> None:
    plant()
    moved = dead_letter(
        "open.letters", payload=BODY, headers=HEADERS, dead_letter=LETTER | {"original_address": ADDRESS}
    )
    ids = [dead_letter(ADDRESS, payload=BODY, headers=HEADERS, dead_letter=LETTER).id, moved.id]
    archived(spark, ids)
    mask("planted.#", "admin")
    columns = REPORT["columns"]
    for caller, role, is_clear in ((admin, Role.ADMIN, True), (operator, Role.OPERATOR, False)):
        row = make(
            "failures", principal=reader(role), columns=columns, filter={"message_id": message_ids(ids)}, format="xlsx"
        )
        assert file_of(row).rows == 2
        content = content_of(stored(row.id, FileFormat.XLSX))
        assert (CANARY in content) is is_clear, role
        for path in (
            *(f"messages/{one}/{part}" for one in ids for part in ("", "payload/", "attempts/")),
            "archive/messages/",
        ):
            assert (CANARY in body_of(caller.get(path))) is is_clear, (role, path)
        for query in ("key.customer", "q"):
            found = caller.get(f"archive/messages/?{query}={CANARY}").json()["results"]
            assert bool(found) is is_clear, (role, query)


def message_ids(ids: list[int]) -> list[str]:
    return list(ArchivedMessage.objects.filter(id__in=ids).values_list("message_id", flat=True))


def body_of(answer: Any) -> str:
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()


def test_a_comparison_of_what_was_moved_masks_by_where_it_was(
    spark: SparkSession, test_database_url: str, monkeypatch: pytest.MonkeyPatch, admin: Caller, operator: Caller
) -> None:
    monkeypatch.setenv("DATABASE_URL", test_database_url)

    def fields(number: int, is_failing: bool) -> dict[str, Any]:
        return {"payload": {"customer": CANARY if is_failing else f"c-{number}"}}

    failing, _ = incident(40, 200, fields)
    dead = ensure_addresses(["open.dead"])["open.dead"].id
    came_in = Message.objects.get(id=failing[0]).address_id
    Message.objects.filter(id__in=failing).update(address_id=dead, original_address_id=came_in)
    made = request_comparison(message_filter={"address": ["open.dead"]}, against={"state": ["DLVD"]}, principal=SYSTEM)
    Message.objects.exclude(id__in=failing).update(address_id=dead)
    compare_due(partial(compare, spark), seconds=600)
    found = get_comparison(made, principal=SYSTEM)
    assert (found.state, found.error) == ("succeeded", None)
    mask("orders.#", "admin", json_path="$.customer")
    assert CANARY in admin.get(f"comparisons/{made}/").content.decode()
    assert CANARY not in operator.get(f"comparisons/{made}/").content.decode()
