"""B14: a report of a million rows in each format, against COPY of the same query to CSV."""

import os
from functools import partial

import psycopg
from django.conf import settings
from django.db import connection, transaction
from pyspark.sql import SparkSession

from benchmarks import loads
from benchmarks.memory import MIB, forget_peak, resident_bytes
from benchmarks.results import Line, alternate, at_most, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.reports.commands import carry_out as reports
from poisonadmin.reports.commands import files
from poisonadmin.reports.commands.requests import request_report
from poisonadmin.reports.domain.asked import AskedReport, asked_report
from poisonadmin.reports.queries.live import range_statements
from poisonadmin.reports.queries.reports import get_report
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.store.models.run import LongRun
from workers.spark.jobs.report import collect
from workers.spark.session import start_session

NAME = "B14"
ROWS = 1_000_000
COPY = "COPY of the same query to CSV"
ADDRESS = "reports.orders"

_FILL = """
WITH fresh AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('message', 'id')) AS id, n FROM generate_series(1, %(count)s) AS n
), bodies AS (
    INSERT INTO body (id, headers, payload)
    SELECT id, convert_to('{"x-kind": "order.created"}', 'UTF8'), convert_to(json_build_object(
        'id', id, 'amount', n, 'employee', json_build_object('id', n),
        'text', repeat(md5(id::text), 29))::text, 'UTF8')
    FROM fresh
), envelopes AS (
    INSERT INTO envelope (id, intake_address_id, message_id, content_type, payload_bytes, received_by)
    SELECT id, %(address)s, 'bench-' || id, 'application/json', 1000, 'benchmark' FROM fresh
)
INSERT INTO message (id, address_id, lane_id, state, reason, due_at)
SELECT id, %(address)s, %(lane)s, CASE n %% 2 WHEN 0 THEN 'TBDL' ELSE 'NDLV' END,
       CASE n %% 2 WHEN 0 THEN NULL ELSE 'attempts_exhausted' END, CASE n %% 2 WHEN 0 THEN now() END
FROM fresh
"""


def run(world: World) -> list[Line]:
    """Measure. The job is called as the worker calls it; the peak is of this process, the worker's, without the JVM."""
    # Only those that were stopped are rows.
    rows = world.count(ROWS, least=5_000)
    loads.empty()
    fill(rows * 2)
    loads.settle_down()
    settings.HOME = world.directory
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    peaks: dict[str, int] = {}
    lines: list[Line] = []
    try:
        make(spark, _asked(FileFormat.CSV), rows, peaks)  # the JVM and the Python tasks are warm from here on
        for written_as in FileFormat:
            asked = _asked(written_as)
            measures = [
                (str(written_as), partial(make, spark, asked, rows, peaks)),
                (COPY, partial(copy, asked, rows)),
            ]
            pairs = pairs_of(alternate(measures, rounds=world.rounds, unit="rows"), str(written_as), COPY)
            lines.append(compared(NAME, f"{rows:,} rows as {written_as} / {COPY}", pairs, unit="rows", aim=0.5))
            peak = peaks[str(written_as)] / MIB
            lines.append(at_most(NAME, f"{rows:,} rows as {written_as}: peak of the worker", peak, aim=300, unit="MB"))
    finally:
        spark.stop()
        loads.empty()
        LongRun.objects.filter(kind="report").delete()
    return lines


def fill(count: int) -> None:
    """Store messages, half of which wait and half of which are undecided."""
    with transaction.atomic(), connection.cursor() as cursor:
        place = ensure_addresses([ADDRESS])[ADDRESS]
        cursor.execute(_FILL, {"count": count, "address": place.id, "lane": place.lane_id})


def _asked(written_as: FileFormat) -> AskedReport:
    return asked_report("failures", format=written_as, filter={"state": ["NDLV"]})


def make(spark: SparkSession, asked: AskedReport, rows: int, peaks: dict[str, int]) -> Rate:
    """Have a report made, whole; return its rate, and keep the peak of this process's memory."""
    forget_peak(os.getpid())
    watch = Stopwatch()
    with watch:
        report_id = request_report(asked, principal=SYSTEM)
        carry_out(reports.work(partial(collect, spark)), worker="benchmark", seconds=3600)
    row = get_report(report_id, principal=SYSTEM)
    assert row.result is not None, (row.state, row.error)
    assert row.result.rows == rows
    peaks[str(asked.format)] = max(peaks.get(str(asked.format), 0), resident_bytes(os.getpid(), "VmHWM"))
    say(f"      {row.result.bytes:,} bytes")
    files.remove(report_id)
    return watch.rate(rows)


def copy(asked: AskedReport, rows: int) -> Rate:
    """Have the database write the same rows as CSV into a file."""
    (statement,) = range_statements(asked, SYSTEM, [IdRange(0, 2**62)])
    connection.ensure_connection()
    target = files.draft_of(0, "copy.csv")
    watch = Stopwatch()
    with (
        watch,
        psycopg.connect(os.environ["DATABASE_URL"]) as session,
        session.cursor() as cursor,
        target.open("wb") as file,
        cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT csv)") as blocks,
    ):
        for block in blocks:
            file.write(block)
    target.unlink()
    return watch.rate(rows)
