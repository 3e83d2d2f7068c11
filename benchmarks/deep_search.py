"""SEARCH: a text looked for in all payloads, by the job that searches, against `grep -c` over the same bytes."""

import math
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from django.db import connection, transaction
from pyspark.sql import SparkSession

from benchmarks import loads
from benchmarks.results import Line, alternate, at_most, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.search.deep.commands.requests import request_search
from poisonadmin.search.deep.commands.searching import Searching, work
from poisonadmin.search.deep.queries import get_search
from workers.spark.jobs.search import find
from workers.spark.session import start_session

NAME = "SEARCH"
MESSAGES = 5_000_000
CUSTOMERS = 10_000
ADDRESS = "search.orders"
OURS = "search for a text in all payloads"
INSIDE = "search for a number at a path"
PEER = "grep -c over the same bytes"
TEXT = '"customer-77"'
Q = r'payload:"\"customer-77\""'

_FILL = """
WITH fresh AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('message', 'id')) AS id, n FROM generate_series(1, %(count)s) AS n
), bodies AS (
    INSERT INTO body (id, headers, payload)
    SELECT id, '{}', convert_to(json_build_object('customer', 'customer-' || n %% %(customers)s,
        'order', json_build_object('total', n %% %(customers)s), 'text', repeat(md5(id::text), 29))::text, 'UTF8')
    FROM fresh
), envelopes AS (
    INSERT INTO envelope (id, intake_address_id, message_id, content_type, payload_bytes, received_by)
    SELECT id, %(address)s, 'bench-' || id, 'application/json', 1000, 'benchmark' FROM fresh
)
INSERT INTO message (id, address_id, lane_id, state, reason)
SELECT id, %(address)s, %(lane)s, 'NDLV', 'attempts_exhausted' FROM fresh
"""


def run(world: World) -> list[Line]:
    """Measure. The job is called as the worker's thread calls it, which looks for searches twice a second."""
    count = world.count(MESSAGES, least=20_000)
    loads.empty()
    fill(count)
    loads.settle_down()
    say(f"  {count:,} messages of 1 KB of JSON; one in {CUSTOMERS:,} has the text")
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    first: list[float] = []
    whole: list[float] = []
    inside: list[float] = []
    try:
        with tempfile.TemporaryDirectory() as directory:
            payloads = write_payloads(Path(directory) / "payloads")
            measures = [
                (OURS, lambda: search(spark, Q, count, first, whole)),
                (PEER, lambda: grep(payloads, count)),
            ]
            rates = alternate(measures, rounds=world.rounds, unit="messages")
        search(spark, f"payload.$.order.total:>={CUSTOMERS - 1}", count, [], inside)
    finally:
        spark.stop()
        loads.empty()
    note = f"{count:,} messages"
    middle = len(whole) // 2
    return [
        at_most(NAME, f"{OURS}: first hits", sorted(first)[middle], aim=5, unit="s", note=note),
        at_most(NAME, f"{OURS}: all", sorted(whole)[middle], aim=180, unit="s", note=note),
        at_most(NAME, f"{INSIDE}: all", inside[0], aim=180, unit="s", note=note),
        compared(NAME, f"{OURS} / {PEER}", pairs_of(rates, OURS, PEER), unit="messages"),
    ]


def fill(count: int) -> None:
    """Store undecided messages of as many customers as there are."""
    with transaction.atomic(), connection.cursor() as cursor:
        place = ensure_addresses([ADDRESS])[ADDRESS]
        values = {"count": count, "address": place.id, "lane": place.lane_id, "customers": CUSTOMERS}
        cursor.execute(_FILL, values)


def write_payloads(path: Path) -> Path:
    """Write every payload into a file, one a line."""
    statement = "COPY (SELECT convert_from(payload, 'UTF8') FROM body) TO STDOUT"
    with connection.cursor() as cursor, path.open("wb") as file, cursor.copy(statement) as copy:
        for piece in copy:
            file.write(piece)
    return path


def search(spark: SparkSession, q: str, count: int, first: list[float], whole: list[float]) -> Rate:
    """Search all of them; note the seconds until the first hits, and until the end."""
    watch = Stopwatch()
    with watch:
        search_id = request_search({"q": [q]}, principal=SYSTEM)
        carry_out(work(Searching(partial(find, spark), str)), worker="benchmark", seconds=math.inf)
    found = get_search(search_id, principal=SYSTEM)
    assert (found.state, found.result.hits, found.error) == ("succeeded", count // CUSTOMERS, None), found
    assert found.result.first_hit_at is not None
    first.append((found.result.first_hit_at - found.created_at).total_seconds())
    whole.append(watch.seconds)
    return watch.rate(count)


def grep(payloads: Path, count: int) -> Rate:
    """Count the lines with the text."""
    watch = Stopwatch()
    with watch:
        found = subprocess.run(["grep", "-cF", TEXT, str(payloads)], capture_output=True, check=False)
    assert int(found.stdout) == count // CUSTOMERS, found
    return watch.rate(count)
