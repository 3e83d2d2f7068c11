"""The `drain` job: its tasks drain the shards of a broker source. `sources.commands.draining` calls it and merges.

The tasks read the source, its login too, and `DATABASE_URL` from their environment.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.intake.domain.draining import Drained
from workers.brokers.contract import BrokerError, Shard
from workers.brokers.drain import DRAIN_SECONDS, drain_shard
from workers.brokers.sources import depth_of, shards_of
from workers.spark.pieces import do_pieces
from workers.spark.tables.columns import RowSchema

# A row a shard of a broker source: a `Drained`.
DRAINED_SHARD = RowSchema("staged long, recognised long, rejected long, is_empty boolean, error string")
_CHECK_SECONDS = 0.2


def count_waiting(source_id: int) -> int | None:
    """Return how many messages wait in the source's queues, None where nobody can say. Errors: `BrokerError`."""
    return depth_of(database_url(os.environ), source_id)


def drain(
    spark: SparkSession, source_id: int, is_stopping: Callable[[], bool], *, seconds: float = DRAIN_SECONDS
) -> Drained:
    """Stage what waits in all the source's queues, shard by shard; return what it came to.

    When it is to stop, the tasks are broken off: what they have stored stays, what they have not acknowledged is given
    out again.
    """
    try:
        shards = shards_of(database_url(os.environ), source_id)
    except BrokerError as error:
        return Drained(is_empty=False, error=str(error))
    tag = f"drain-{source_id}"
    with ThreadPoolExecutor(1, thread_name_prefix=tag) as thread:
        running = thread.submit(_run, spark, tag, source_id, shards, seconds)
        while not wait([running], timeout=_CHECK_SECONDS).done:
            if is_stopping():
                spark.interruptTag(tag)
                wait([running])
                return Drained(is_empty=False)
        return running.result()


def _run(spark: SparkSession, tag: str, source_id: int, shards: Sequence[Shard], seconds: float) -> Drained:
    spark.addTag(tag)  # this thread's
    drained = Drained()
    for row in do_pieces(spark, len(shards), partial(_drain_shard, source_id, tuple(shards), seconds), DRAINED_SHARD):
        drained += Drained(**row)
    return drained


def _drain_shard(source_id: int, shards: Sequence[Shard], seconds: float, index: int) -> list[dict[str, Any]]:
    drained = drain_shard(database_url(os.environ), source_id, shards[index], seconds=seconds)
    return [asdict(drained)]
