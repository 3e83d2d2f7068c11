"""ARCHIVE: final messages moved to files and verified, against a bare COPY of the same rows written by pyarrow; and how
long pages take beside it.
"""

import contextlib
import os
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc
import psutil
import pyarrow.parquet as pq
from django.conf import settings
from django.db import connection
from django.utils import timezone
from pyspark.sql import SparkSession

from benchmarks import loads
from benchmarks.memory import MIB, pss_bytes
from benchmarks.page_latency import Visitor
from benchmarks.results import Line, Pair, at_most, compared, quantile, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.runs import work
from poisonadmin.archive.queries import get_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.messages.commands.counts import fold, verify
from poisonadmin.runs.commands.engine import carry_out
from sample.backlog.load import load_backlog
from tests.fixtures.live_web import running_web
from workers.spark.jobs.archive import SparkArchiveStore
from workers.spark.session import start_session

NAME = "ARCHIVE"
MESSAGES = 5_000_000
KEPT_OF_FIVE = 1
# Those of a message that go into files.
TABLES = {"message": "id", "envelope": "id", "body": "id", "attempt": "message_id", "history": "message_id"}
PAGES = ("/", "/triage/", "/triage/?state=NDLV", "/triage/?group_by=failure", "/addresses/", "/archive/")
_FINAL = "UPDATE message SET state = 'FAIL', reason = coalesce(reason, 'expired') WHERE id %% 5 >= %s"
_KEEP = "UPDATE message SET state = 'NDLV', reason = coalesce(reason, 'returned') WHERE id %% 5 < %s"
_SIZES = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname = ANY(%s) ORDER BY 1
"""
_SAMPLE_SECONDS = 0.5


def run(world: World) -> list[Line]:
    """Measure once: what is archived is gone from the database."""
    count = world.count(MESSAGES, least=5_000)
    loads.empty()
    load_backlog(messages=count, groups=min(400, count), seed=1, force=True, say=lambda _: None)
    with connection.cursor() as cursor:
        cursor.execute(_FINAL, [KEPT_OF_FIVE])
        cursor.execute(_KEEP, [KEPT_OF_FIVE])
        cursor.execute("VACUUM (FULL, ANALYZE) message")
        cursor.execute("SELECT count(*) FROM message WHERE state = 'FAIL'")
        final = cursor.fetchone()[0]
    verify(is_repair=True, actor="benchmark")
    loads.settle_down()
    settings.ARCHIVE = str(world.directory / "archive")
    before = _sizes()
    plain = _copy(world.directory, final)
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    try:
        with running_web() as (address, web):
            visitor = Visitor(address, world.directory, PAGES)
            visitor.visit(2)
            alone = visitor.visit(12)
            with visitor.visiting() as beside:
                ours, peak = _archive(spark, final, web)
    finally:
        spark.stop()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
    after = _sizes()
    for table, size in before.items():
        say(f"  {table:<12} {size / MIB:>10,.0f} MiB before, {after[table] / MIB:>10,.0f} MiB after")
    loads.empty()
    pair = Pair(ours, plain)
    return [
        compared(NAME, f"{final:,} archived / COPY and Parquet", [pair], unit="messages", aim=0.5),
        Line(NAME, "peak memory of this process, Spark and its tasks", f"{peak / MIB:,.0f} MiB"),
        *(_slower(share, alone, beside) for share in (0.5, 0.95)),
    ]


def _slower(share: float, alone: Sequence[float], beside: Sequence[float]) -> Line:
    before, during = quantile(alone, share), quantile(beside, share)
    note = f"{during:.0f} against {before:.0f} ms, {len(beside)} pages"
    return at_most(
        NAME, f"pages beside the run / before it, p{share * 100:g}", during / before, aim=2, unit="x", note=note
    )


def _archive(spark: SparkSession, final: int, web: psutil.Process) -> tuple[Rate, int]:
    made = request_archive_run(as_of=timezone.now() + timedelta(days=36_500), principal=SYSTEM)
    store = SparkArchiveStore(spark, settings.ARCHIVE)
    peak, watch = _Peak(web.pid), Stopwatch()
    with peak, watch:
        while not get_run(made.id, principal=SYSTEM).is_over:
            carry_out(work(store), worker="benchmark", seconds=1)
            fold()  # as a tick of the system does each second
    tables = get_run(made.id, principal=SYSTEM).tables
    assert tables["messages"]["rows"] == final, tables
    return watch.rate(final), peak.bytes


def _copy(directory: Path, final: int) -> Rate:
    watch = Stopwatch()
    with watch, adbc.connect(os.environ["DATABASE_URL"], autocommit=True) as session, session.cursor() as cursor:
        for table, key in TABLES.items():
            cursor.execute(
                f"SELECT one.* FROM {table} AS one JOIN message AS m ON m.id = one.{key} WHERE m.state = 'FAIL'"
            )
            rows = cursor.fetch_record_batch()
            with pq.ParquetWriter(directory / f"{table}.parquet", rows.schema, compression="zstd") as writer:
                for batch in rows:
                    writer.write_batch(batch)
    return watch.rate(final)


def _sizes() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_SIZES, [list(TABLES)])
        return dict(cursor.fetchall())


class _Peak:
    """The most memory that this process and those below it have taken together, but for PostgreSQL and `but`."""

    def __init__(self, but: int) -> None:
        self.bytes = 0
        self._but = but
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._is_over.wait(_SAMPLE_SECONDS):
            with contextlib.suppress(psutil.Error):
                tree = [one for one in me.children(recursive=True) if one.name() != "postgres" and one.pid != self._but]
                self.bytes = max(self.bytes, pss_bytes(me.pid) + sum(pss_bytes(one.pid) for one in tree))
