"""Batch work that is cut into pieces.

On a cluster each piece is a task, and what is not cut has as many tasks as the cluster runs side by side. In one
process, deliveries need slots for tasks too: there batch work has at most `BATCH_TASKS` tasks at a time, and each of
them does several pieces.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from poisonadmin.core.domain.spark_settings import BATCH_TASKS
from workers.spark.tables.columns import RowSchema

# Returns the rows of one piece; it runs in a task.
Work = Callable[[int], list[dict[str, Any]]]

# Each has a connection to the database.
MOST_READERS = 32
# Executors come and go.
_CORES_KNOWN_SECONDS = 60.0
_cores: "WeakKeyDictionary[SparkSession, tuple[float, int]]" = WeakKeyDictionary()

_free = BATCH_TASKS
_change = threading.Condition()


def do_pieces(
    spark: SparkSession, count: int, work: Work, shape: RowSchema, *, most: int = BATCH_TASKS
) -> list[dict[str, Any]]:
    """Do the work for each piece from 0 to `count`; return the rows of all, in any order.

    `most`: how many tasks in one process; a cluster has one for each piece.
    """
    if not count:
        return []
    with batch_slots(spark, min(count, most) if _is_one_process(spark) else count) as tasks:
        rows = spark.range(0, tasks, 1, tasks)
        found = rows.mapInArrow(partial(_do_some, tasks, count, work, shape.arrow), shape.spark)
        # Collected as rows, times would be without a zone.
        return cast("list[dict[str, Any]]", found.toArrow().to_pylist())


@contextmanager
def batch_slots(spark: SparkSession, wanted: int | None = None) -> Iterator[int]:
    """Give the number of tasks that batch work may have, at most `wanted`; they are held until the end.

    A cluster gives what is wanted, as many as run side by side by default. One process gives `BATCH_TASKS` in all, and
    waits for those that others hold.
    """
    if not _is_one_process(spark):
        yield tasks_side_by_side(spark) if wanted is None else wanted
        return
    tasks = min(wanted or BATCH_TASKS, BATCH_TASKS)
    with _slots(tasks):
        yield tasks


def tasks_side_by_side(spark: SparkSession, *, in_one_process: int = BATCH_TASKS) -> int:
    """Return how many tasks that read the database run at the same time: on a cluster as many as it has cores."""
    if _is_one_process(spark):
        return in_one_process
    now = time.monotonic()
    asked_at, _ = _cores.get(spark, (float("-inf"), 0))
    if now - asked_at > _CORES_KNOWN_SECONDS:
        # As many partitions as Spark makes by default; over Connect there is no other way to ask.
        partitions = spark.range(MOST_READERS).select(F.spark_partition_id().alias("partition")).distinct()
        _cores[spark] = now, partitions.count()
    return _cores[spark][1]


def _is_one_process(spark: SparkSession) -> bool:
    return (spark.conf.get("spark.master") or "").startswith("local[")


def _do_some(
    tasks: int, count: int, work: Work, shape: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for task in batch.column(0).to_pylist():
            for piece in range(task, count, tasks):
                yield pa.RecordBatch.from_pylist(work(piece), schema=shape)


@contextmanager
def _slots(count: int) -> Iterator[None]:
    """Hold so many of this process's slots for batch tasks; wait until they are free."""
    global _free
    with _change:
        _change.wait_for(lambda: _free >= count)
        _free -= count
    try:
        yield
    finally:
        with _change:
            _free += count
            _change.notify_all()
