"""The `redeliver` job: one Spark task that delivers shards of claims, as they come, and writes their outcomes itself.

One action without a shuffle and without a result: what a shard came to is in its node's row, which also fences a task
that Spark runs again.
"""

import os
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import database_url
from workers.delivery.task import serve

_SCHEMA = pa.schema([("shards", pa.int64())])


def run_delivery_task(spark: SparkSession, instance: int) -> None:
    """Run a delivery task of the worker's `instance` until nothing was left for it for a minute.

    The task reads `DATABASE_URL` from its environment. Errors: as Spark reports those of the task.
    """
    spark.range(0, 1, 1, 1).mapInArrow(partial(_serve, instance), "shards long").collect()


def _serve(instance: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        shards = serve(database_url(os.environ), instance=instance)
        yield pa.RecordBatch.from_pylist([{"shards": shards}], schema=_SCHEMA)
