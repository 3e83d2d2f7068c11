"""COMMON: what failing messages have in common: whether the cause that was planted comes first, and the whole job."""

import json
import statistics
from functools import partial
from typing import Any

from django.db import connection, transaction
from pyspark.sql import SparkSession

from benchmarks import loads
from benchmarks.incidents import KINDS, REGION, VERSION, Incident, findings_of, is_first, make_incident
from benchmarks.results import Line, at_most, say
from benchmarks.stopwatch import Stopwatch
from benchmarks.world import World
from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.comparisons.commands.carry_out import work
from poisonadmin.comparisons.commands.requests import request_comparison
from poisonadmin.comparisons.domain.findings import finding_from
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.store.models.run import LongRun
from workers.spark.jobs.compare import compare
from workers.spark.session import start_session

NAME = "COMMON"
SEEDS = 100
MESSAGES, FAILING = 100_000, 1_000
ADDRESS = "common.orders"
_PAYLOAD = "payload.$."

_STAGE = "CREATE TEMPORARY TABLE staged (n int, headers bytea, payload bytea, region text) ON COMMIT DROP"
_FILL = """
WITH fresh AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('message', 'id')) AS id, staged.* FROM staged
), bodies AS (
    INSERT INTO body (id, headers, payload) SELECT id, headers, payload FROM fresh
), keys AS (
    INSERT INTO business_key (message_id, name, value) SELECT id, 'region', region FROM fresh WHERE region IS NOT NULL
), envelopes AS (
    INSERT INTO envelope (id, intake_address_id, message_id, content_type, payload_bytes, received_by)
    SELECT id, %(address)s, 'bench-' || id, 'application/json', octet_length(payload), 'benchmark' FROM fresh
)
INSERT INTO message (id, address_id, lane_id, state, reason)
SELECT id, %(address)s, %(lane)s, CASE WHEN n < %(failing)s THEN 'NDLV' ELSE 'DLVD' END,
       CASE WHEN n < %(failing)s THEN 'attempts_exhausted' END
FROM fresh
"""


def run(world: World) -> list[Line]:
    """Measure. The job is called as the worker calls it, without the tick before it."""
    lines = [_planted(kind, world.count(SEEDS, least=2)) for kind in KINDS]
    seconds: list[float] = []
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    try:
        for seed in range(world.rounds + 1):
            for kind in KINDS:
                seconds.append(_whole_job(spark, make_incident(kind, seed, others=MESSAGES - FAILING)))
                say(f"    {kind}, seed {seed}: {seconds[-1]:.1f} s")
    finally:
        spark.stop()
        loads.empty()
    note = f"{FAILING:,} failing of {MESSAGES:,}, median of {len(seconds) - 1}"
    # The first one warms the JVM and the Python tasks.
    return [*lines, at_most(NAME, "the whole job: time", statistics.median(seconds[1:]), aim=20, unit="s", note=note)]


def _planted(kind: str, seeds: int) -> Line:
    """Return in how many of a hundred incidents the domain has the cause first, or says that there is none."""
    right = sum(
        is_first(incident, findings_of(incident)) for incident in (make_incident(kind, n) for n in range(seeds))
    )
    share = 100 * right / seeds
    return Line(NAME, f"{kind}: right", f"{right} of {seeds}", ">= 95 of 100", share >= 95, "")


def _whole_job(spark: SparkSession, incident: Incident) -> float:
    loads.empty()
    _fill(incident)
    loads.settle_down()
    watch = Stopwatch()
    with watch:
        asked = request_comparison(message_filter={"state": ["NDLV"]}, principal=SYSTEM)
        carry_out(work(partial(compare, spark)), worker="benchmark")
    row = LongRun.objects.get(id=asked)
    assert row.state == "succeeded", row.error
    found = row.result
    assert (found["failing"], found["others"]) == (incident.sample.failing, incident.sample.others), found
    assert is_first(incident, [finding_from(one) for one in found["findings"]]), found
    return watch.seconds


def _fill(incident: Incident) -> None:
    """Store the messages of an incident: noise and totals in payloads, the version in a header, the region as a key."""
    columns = {name: column.tolist() for name, column in incident.columns.items()}
    with transaction.atomic(), connection.cursor() as cursor:
        place = ensure_addresses([ADDRESS])[ADDRESS]
        cursor.execute(_STAGE)
        with cursor.copy("COPY staged FROM STDIN") as copy:
            for n in range(incident.sample.failing + incident.sample.others):
                headers = {"client-version": columns[VERSION][n]} if VERSION in columns else {}
                region = columns[REGION][n] if REGION in columns else None
                copy.write_row((n, json.dumps(headers, separators=(",", ":")).encode(), _payload(columns, n), region))
        cursor.execute(_FILL, {"address": place.id, "lane": place.lane_id, "failing": incident.sample.failing})


def _payload(columns: dict[str, list[Any]], n: int) -> bytes:
    document: dict[str, Any] = {}
    for name, values in columns.items():
        if name.startswith(_PAYLOAD):
            *above, last = name.removeprefix(_PAYLOAD).split(".")
            inner = document
            for step in above:
                inner = inner.setdefault(step, {})
            inner[last] = values[n]
    return json.dumps(document).encode()
