"""B4: Spark takes in files, deduplicated and restartable, against a binary COPY of the finished rows and JDBC."""

import os
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from benchmarks import bare_copy, files, jdbc_peer, loads, memory, profile
from benchmarks.results import Line, alternate, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.sources.commands.directories import ingest_source
from poisonadmin.store.models.intake import Source
from workers.spark.jobs.ingest import stage_files
from workers.spark.session import start_session

NAME = "B4"
MESSAGES = 1_000_000
OURS = "Spark ingest of files"
COPY = "binary COPY of the finished rows"
JDBC = "Spark JDBC, its defaults"
LIMIT = "Python reading and checking each line, then the merge"


def run(world: World) -> list[Line]:
    """Measure. The job is called as the worker calls it, without the tick before it."""
    count = world.count(MESSAGES, least=10_000)
    url = world.services.database_url
    dropped = world.directory / "dropped"
    paths = files.write_ndjson(dropped, count)
    size = sum(path.stat().st_size for path in paths) / 2**20
    driver = jdbc_peer.fetch_driver(world.directory)
    if driver:
        jdbc_peer.put_on_class_path(driver)
    else:
        say("  the PostgreSQL JDBC driver cannot be fetched here (Maven and Maven Central): that peer is left out")
    say(f"  {count:,} messages, {len(paths)} NDJSON files, {size:,.0f} MB; the JDBC driver is {driver and driver.name}")
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    source, _ = Source.objects.get_or_create(name="b4", kind="directory", defaults={"config": {"path": str(dropped)}})

    def ingest(meanwhile: AbstractContextManager[None] | None = None) -> Rate:
        loads.empty()
        watch = Stopwatch()
        with watch, meanwhile or nullcontext():
            ingested = ingest_source(source.id, stage=partial(stage_files, spark), worker="benchmark")
        assert ingested is not None
        assert ingested.accepted == count, f"{ingested} instead of {count} messages"
        return watch.rate(count)

    memory_watch = memory.Watch(lambda: memory.labelled(os.getpid(), own="driver"))
    try:
        ingest()  # the JVM and the Python tasks are warm from here on
        peaks = memory_watch.stop()
        bare_copy.dump(url, world.directory)
        measures = [(OURS, ingest), (COPY, lambda: bare_copy.load(url, world.directory, count))]
        if driver:
            measures.append((JDBC, lambda: jdbc_peer.load(spark, paths, url, count)))
        rates = alternate(measures, rounds=world.rounds, unit="messages")
        spent = profile.lines_of(NAME, world, lambda: memory.labelled(os.getpid(), own="driver"), count, ingest)
    finally:
        spark.stop()
        loads.empty()
    lines = [
        compared(NAME, f"{OURS} / {COPY}", pairs_of(rates, OURS, COPY), unit="messages", aim=0.65, limit=LIMIT),
        *spent,
        *memory.lines(NAME, "peak while Spark ingests", peaks),
    ]
    if driver:
        pairs = pairs_of(rates, OURS, JDBC)
        lines.insert(1, compared(NAME, f"{OURS} / {JDBC}", pairs, unit="messages", aim=1.2))
    return lines
