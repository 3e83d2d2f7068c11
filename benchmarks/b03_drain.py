"""B3: dead letters from RabbitMQ become messages, against a consumer that only acknowledges and a bare binary COPY."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import psycopg
from django.db import connections
from pyspark.sql import SparkSession

from benchmarks import bare_copy, loads, memory, profile
from benchmarks.rabbit_queues import QUEUE_TYPES, Queues, running_queues
from benchmarks.results import Line, alternate, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.sources.commands.draining import Drainer, drain_source
from poisonadmin.store.models.intake import Source
from workers.spark.jobs.drain import count_waiting, drain
from workers.spark.session import start_session

NAME = "B3"
MESSAGES = 200_000
OURS = "drained"
CONSUMER = "a consumer with pika that only acknowledges"
FLOOR = "one that decodes nothing"
COPY = "binary COPY of the finished rows"
LIMIT = "Python reading each message's headers, then the merge, on the broker's and the database's cores"
DEAD = "orders.dead"
PATIENCE_SECONDS = 600.0


def run(world: World) -> list[Line]:
    """Measure. Ours counts until every message is NDLV; the job is called as its tick calls it.

    The second for which the job then waits for more counts as processor time only.
    """
    count = world.count(MESSAGES, least=5_000)
    os.environ["DATABASE_URL"] = world.services.database_url
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    lines: list[Line] = []
    try:
        with running_queues(world.directory / "b03") as queues:
            for kind in QUEUE_TYPES:
                say(f"  {count:,} dead letters of 1 kB in a {kind} queue")
                lines += _of_queues(world, queues, kind, count, spark)
    finally:
        spark.stop()
        loads.empty()
    return lines


def _of_queues(world: World, queues: Queues, kind: str, count: int, spark: SparkSession) -> list[Line]:
    body = b"x" * loads.BODY_BYTES
    config = {"url": queues.url, "queues": [DEAD]}
    secrets = {"username": "guest", "password": "guest"}
    source, _ = Source.objects.update_or_create(
        name="b3", defaults={"kind": "rabbitmq", "config": config, "secrets": secrets}
    )
    drainer = Drainer(count_waiting, partial(drain, spark, seconds=300.0), worker="benchmark")

    def ours(meanwhile: AbstractContextManager[None] | None = None) -> Rate:
        loads.empty()
        queues.fill_with_dead_letters(DEAD, kind, count, body)
        watch = Stopwatch()
        before = Source.objects.get(id=source.id).accepted
        with watch, meanwhile or nullcontext(), ThreadPoolExecutor(1) as thread:
            taking = thread.submit(_seconds_until, world.services.database_url, source.id, accepted=before + count)
            done = drain_source(source.id, drainer)
            seconds = taking.result(timeout=10.0)
        assert done is not None
        assert done[0].error is None, done[0].error
        assert done[1].accepted == count, f"{done} instead of {count} messages"
        assert queues.depth(DEAD) == 0, "not all are acknowledged"
        return watch.rate(count, seconds=seconds)

    def consumer(how: str) -> Rate:
        queues.fill_with_dead_letters(DEAD, kind, count, body)
        watch = Stopwatch()
        with watch:
            queues.acknowledge_only(DEAD, count, how)
        return watch.rate(count)

    def copy() -> Rate:
        connections.close_all()
        return bare_copy.load(world.services.database_url, world.directory, count)

    ours()  # the Python tasks are warm from here on
    bare_copy.dump(world.services.database_url, world.directory)
    peers: list[tuple[str, Callable[[], Rate]]] = [
        (CONSUMER, partial(consumer, "pika")),
        (FLOOR, partial(consumer, "bytes")),
        (COPY, copy),
    ]
    rates = alternate([(OURS, ours), *peers], rounds=world.rounds, unit="messages")
    spent = profile.lines_of(NAME, world, lambda: memory.labelled(os.getpid(), own="driver"), count, ours)
    to_consumer, to_floor, to_copy = (pairs_of(rates, OURS, name) for name, _ in peers)
    return [
        compared(NAME, f"{kind} queue {OURS} / {CONSUMER}", to_consumer, unit="messages", aim=0.55, limit=LIMIT),
        compared(NAME, f"{kind} queue {OURS} / {FLOOR}", to_floor, unit="messages", limit=LIMIT),
        compared(NAME, f"{kind} queue {OURS} / {COPY}", to_copy, unit="messages", aim=0.33, limit=LIMIT),
        *spent,
    ]


def _seconds_until(database_url: str, source_id: int, *, accepted: int) -> float:
    """Return how long it takes from now until the source has so many messages accepted."""
    began = time.perf_counter()
    with psycopg.connect(database_url, autocommit=True) as session:
        while time.perf_counter() < began + PATIENCE_SECONDS:
            row = session.execute("SELECT accepted FROM source WHERE id = %s", [source_id]).fetchone()
            if row is not None and row[0] >= accepted:
                break
            time.sleep(0.05)
    return time.perf_counter() - began
