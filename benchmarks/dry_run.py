"""DRYRUN: a rule of three conditions tried on all stored messages, against one full read of the same rows."""

from functools import partial

from django.db import connection, transaction
from pyspark.sql import SparkSession

from benchmarks import loads
from benchmarks.full_read import read_ranges
from benchmarks.results import Line, alternate, at_most, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.rules.commands import table
from poisonadmin.rules.commands.dry_runs import RANGE_MESSAGES, request_dry_run, work
from poisonadmin.rules.commands.table import RuleFields
from poisonadmin.rules.queries.rules import latest_dry_run
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.store.models.rule import Rule
from workers.spark.jobs.dry_run import try_rule
from workers.spark.session import start_session

NAME = "DRYRUN"
MESSAGES = 1_000_000
ADDRESS = "dryrun.orders"
OURS = "dry run, three conditions"
PLAIN = "one full read of the same rows"
MATCH = {
    "address": "dryrun.#",
    "headers": [{"name": "x-kind", "like": "order*"}],
    "json": [{"path": "$.amount", "outside": {"min": 0}}, {"path": "$.employee.id", "present": True}],
}
EVERY = 10  # of so many messages one matches

_FILL = """
WITH fresh AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('message', 'id')) AS id, n FROM generate_series(1, %(count)s) AS n
), bodies AS (
    INSERT INTO body (id, headers, payload)
    SELECT id, convert_to('{"x-kind": "order.created"}', 'UTF8'), convert_to(json_build_object(
        'id', id, 'amount', CASE WHEN n %% %(every)s = 0 THEN -1 ELSE n END, 'employee', json_build_object('id', n),
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
    """Measure. The job is called as the worker calls it, without the tick before it."""
    count = world.count(MESSAGES, least=5_000)
    loads.empty()
    fill(count)
    loads.settle_down()
    say(f"  {count:,} messages of 1 KB of JSON, half TBDL, half NDLV; one in {EVERY} matches")
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    seconds: list[float] = []
    try:
        read_all(spark, count)  # the JVM and the Python tasks are warm from here on
        measures = [(OURS, lambda: dry_run(spark, count, seconds)), (PLAIN, lambda: read_all(spark, count))]
        rates = alternate(measures, rounds=world.rounds, unit="messages")
    finally:
        spark.stop()
        loads.empty()
        Rule.objects.all().delete()
    pairs = pairs_of(rates, OURS, PLAIN)
    note = f"{count:,} messages"
    return [
        compared(NAME, f"{OURS} / {PLAIN}", pairs, unit="messages", aim=0.5),
        at_most(NAME, f"{OURS}: time", sorted(seconds)[len(seconds) // 2], aim=60, unit="s", note=note),
    ]


def fill(count: int) -> None:
    """Store messages, half of which wait and half of which are undecided."""
    with transaction.atomic(), connection.cursor() as cursor:
        place = ensure_addresses([ADDRESS])[ADDRESS]
        cursor.execute(_FILL, {"count": count, "address": place.id, "lane": place.lane_id, "every": EVERY})


def dry_run(spark: SparkSession, count: int, seconds: list[float]) -> Rate:
    """Try a new rule on all of them."""
    fields = RuleFields(f"rule {len(seconds)}", MATCH, {"do": "reject"})
    rule = table.create_rule("before", fields, principal=SYSTEM)
    watch = Stopwatch()
    with watch:
        request_dry_run(rule.id, principal=SYSTEM)
        carry_out(work(partial(try_rule, spark)), worker="benchmark", seconds=3600)
    found = latest_dry_run(rule.id, principal=SYSTEM)
    assert (found.result.read, found.result.matched, found.error) == (count, count // EVERY, None), found
    seconds.append(watch.seconds)
    return watch.rate(count)


def read_all(spark: SparkSession, count: int) -> Rate:
    """Read the same columns of the same rows by the same tasks, and do nothing with them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(id) - 1, max(id), array_agg(DISTINCT address_id) FROM message")
        first, last, addresses = cursor.fetchone()
    ranges = [IdRange(at, min(at + RANGE_MESSAGES, last)) for at in range(first, last, RANGE_MESSAGES)]
    watch = Stopwatch()
    with watch:
        tasks = spark.range(0, len(ranges), 1, len(ranges))
        rows = tasks.mapInArrow(partial(read_ranges, tuple(ranges), tuple(addresses)), "n long").collect()
    assert sum(row.n for row in rows) == count
    return watch.rate(count)
