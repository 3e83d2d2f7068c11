"""Which benchmarks there are, in the order in which they run: first those that want the database to themselves."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.results import Line
from benchmarks.world import World


@dataclass(frozen=True)
class Benchmark:
    """A benchmark by its id; its module is imported when Django is set up."""

    name: str
    title: str
    module: str
    on_live_system: bool = False

    def load(self) -> Callable[[World], list[Line]]:
        """Return the function that measures."""
        run: Callable[[World], list[Line]] = importlib.import_module(f"benchmarks.{self.module}").run
        return run


BENCHMARKS = (
    Benchmark("B1", "one decision on a million messages", "b01_bulk"),
    Benchmark("B6", "claim and settle, no delivery", "b06_claim_settle"),
    Benchmark("B7", "claim and settle under long snapshots", "b07_snapshots"),
    Benchmark("B9", "the counters after many transitions", "b09_counts"),
    Benchmark("B17", "settling beside a million messages", "b17_settle_beside"),
    Benchmark("B8", "pages and lists over millions of messages", "b08_lists"),
    Benchmark("ARCHIVE", "final messages moved to files", "archive"),
    Benchmark("SEARCH", "a text looked for in all payloads", "deep_search"),
    Benchmark("B14", "reports of a million rows", "b14_reports"),
    Benchmark("B4", "Spark ingest of files", "b04_spark_ingest"),
    Benchmark("B3", "dead letters drained from RabbitMQ", "b03_drain"),
    Benchmark("B5H", "redelivery over HTTP", "b05h_http", on_live_system=True),
    Benchmark("B5", "redelivery to RabbitMQ", "b05_rabbitmq", on_live_system=True),
    Benchmark("B12", "an endpoint that hangs beside one that does not", "b12_hanging_endpoint", on_live_system=True),
    Benchmark("B13", "from a click to the consumer", "b13_click", on_live_system=True),
    Benchmark("B1R", "an operation with a rate, seen by the consumer", "b01_rate", on_live_system=True),
    Benchmark("B15", "messages falling due over a minute", "b15_punctuality", on_live_system=True),
    Benchmark("B10", "who is blamed when a consumer dies", "b10_innocents", on_live_system=True),
    Benchmark("B11", "a delivering process killed", "b11_killed", on_live_system=True),
    Benchmark("B16", "idle footprint and cold start", "b16_footprint"),
)
