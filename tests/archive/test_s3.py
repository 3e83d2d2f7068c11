"""The archive in an object store does what it does in a directory: archive, find, restore, erase."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.conf import settings
from pyspark.sql import SparkSession

from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.archive.queries import ErasureResult, get_erasure, get_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.archive_place import within
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.desk.queries.detail import get_message, payload
from poisonadmin.messages.queries.archived_index import ArchiveUnreadable, MessageErased
from poisonadmin.runs.queries.runs import StoredRun
from poisonadmin.search.deep.commands.requests import request_search
from poisonadmin.search.deep.commands.searching import Searching
from poisonadmin.search.deep.queries import first_found, get_search
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import list_archived
from poisonadmin.store.models.run import LongRun
from tests.archive.fixtures import archive, erase_with, fail, put
from tests.archive.s3_server import S3Server, running_s3
from tests.fixtures.database import empty_database
from tests.searches.plain import search_due
from workers.spark.jobs.archive import SparkArchiveStore
from workers.spark.jobs.search import find
from workers.spark.tables.archive_files import located

# Maven fetches the server.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]
# A file's name has its beginning, and must not mean anything to a URL.
ODD = "größe%41?b=1&c/d.eu"


@pytest.fixture
def s3(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, test_database_url: str
) -> Iterator[S3Server]:
    """Run a server, to which this process and the tasks have the keys."""
    monkeypatch.setattr(settings, "ARCHIVE", "")
    with running_s3(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        monkeypatch.setenv("DATABASE_URL", test_database_url)
        yield server


def lived(spark: SparkSession, place: str) -> dict[str, Any]:
    """Archive ten messages, search, restore and erase; return what was to be seen, without what differs by the run."""
    settings.ARCHIVE = place
    store = SparkArchiveStore(spark, place)
    fail(put(6, ODD))
    fail(put(4, "invoices.eu", "i"), days_ago=600)
    seen: dict[str, Any] = {}
    run = request_archive_run(principal=SYSTEM)
    archive(spark)
    ended = get_run(run.id, principal=SYSTEM)
    seen["run"] = ended.state, ended.error, {table: sums["rows"] for table, sums in ended.tables.items()}
    seen["files"] = files(store, run)
    seen["found"] = [row.message_id for row in list_archived(parse_filter({"q": ["m-"]}), principal=SYSTEM).results]
    seen["deep"] = searched(spark, "payload:secret-3")
    shown = {row.message_id: row.id for row in list_archived(parse_filter({}), principal=SYSTEM).results}
    seen["payload"] = b"".join(payload(shown["m-3"], principal=SYSTEM).slices)
    restore_from_archive(shown["m-0"], reason="look again", principal=SYSTEM)
    seen["restored"] = get_message(shown["m-0"], principal=SYSTEM).state, fetch_values("SELECT count(*) FROM history")
    erasure = request_erasure({"message_id": ["m-1", "m-0"]}, reason="asked for", principal=SYSTEM)
    erase_with(store)
    erased = get_erasure(erasure.id, principal=SYSTEM)
    seen["erased"] = erased.state, erased.error, erased.result
    with pytest.raises(MessageErased):
        get_message(shown["m-1"], principal=SYSTEM)
    seen["files after"] = files(store, run)
    seen["payloads after"] = sorted(
        bytes(one)
        for (path,) in fetch_rows("SELECT path FROM archive_file WHERE table_name = 'messages' AND is_current")
        for one in pq.read_table(located(place, path)[1], filesystem=located(place, path)[0])["payload"].to_pylist()
    )
    return seen


def files(store: SparkArchiveStore, run: StoredRun) -> list[Any]:
    """Return what files there are, each noted with its rows and every one of them there, beside the manifest."""
    noted = fetch_rows("SELECT path, is_current FROM archive_file")
    assert sorted(store.listed(f"run={run.id}")) == sorted(
        [f"run={run.id}/manifest.json", *(path for path, _ in noted)]
    )
    return fetch_rows("SELECT table_name, root, rows, is_current FROM archive_file ORDER BY 1, 2, 3")


def searched(spark: SparkSession, q: str) -> list[tuple[str, bool]]:
    search_id = request_search({"q": [q]}, principal=SYSTEM)
    search_due(Searching(partial(find, spark), partial(within, settings.ARCHIVE)))
    found = get_search(search_id, principal=SYSTEM)
    return sorted((row.message_id, row.archived) for row in first_found(found, principal=SYSTEM))


def test_an_object_store_does_what_a_directory_does(s3: S3Server, spark: SparkSession, tmp_path: Path) -> None:
    in_store = lived(spark, s3.place)
    objects = [path for path in (s3.directory / "poison" / "archive").rglob("*.parquet") if path.is_file()]
    assert len(objects) == len(in_store["files after"])
    assert not any(b"secret-1" in path.read_bytes() for path in objects)
    empty_database()
    in_directory = lived(spark, str(tmp_path / "archive"))
    assert in_store == in_directory
    assert in_store["run"][:2] == ("succeeded", None)
    assert in_store["deep"] == [("i-3", True), ("m-3", True)]
    assert in_store["erased"] == ("succeeded", None, ErasureResult(erased=2, left_alone=0, held_by=[]))


def test_a_store_that_is_gone_stops_the_run_and_loses_nothing(s3: S3Server, spark: SparkSession) -> None:
    ids = put(3)
    fail(ids)
    run = request_archive_run(principal=SYSTEM)
    settings.ARCHIVE = s3.place.replace("/archive", "-that-is-not-there/archive")
    with pytest.raises(Exception, match="poison-that-is-not-there"):
        archive(spark)
    waiting = get_run(run.id, principal=SYSTEM)
    assert (waiting.state, "poison-that-is-not-there" in (waiting.error or "")) == ("queued", True)
    assert fetch_values("SELECT id FROM message ORDER BY id") == ids
    settings.ARCHIVE = s3.place
    LongRun.objects.update(resumes_at=None)
    archive(spark)
    assert fetch_values("SELECT count(*) FROM message") == [0]
    settings.ARCHIVE = s3.place.replace("/archive", "-that-is-not-there/archive")
    with pytest.raises(ArchiveUnreadable, match="POISONADMIN_ARCHIVE"):
        payload(ids[0], principal=SYSTEM)
