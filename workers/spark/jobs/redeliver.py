"""The `redeliver` job: each task delivers one shard of a claim and writes its outcomes itself.

One action without a shuffle, so that a task's end is a delivery's end; the node row fences a task that Spark runs
again.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple

import pyarrow as pa
from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import database_url
from workers.delivery.shard import DestinationTally, deliver_shard

TALLY = (
    "shard int, destination_id long, claimed long, begun long, delivered long, failed long, transport_failures long, "
    "cause string"
)
_COUNTS = ("destination_id", "claimed", "begun", "delivered", "failed", "transport_failures")
_SCHEMA = pa.schema([("shard", pa.int32()), *((name, pa.int64()) for name in _COUNTS), ("cause", pa.string())])


def redeliver(spark: SparkSession, *, claim_id: int, shards: Sequence[int]) -> list[DestinationTally]:
    """Deliver the claim; return one row a shard and destination.

    The tasks read `DATABASE_URL` from their environment.
    """
    each_shard = spark.range(0, len(shards), 1, len(shards))
    rows = each_shard.mapInArrow(_deliver(claim_id, tuple(shards)), TALLY).collect()
    return [DestinationTally(*row[1:]) for row in rows]


def _deliver(claim_id: int, shards: tuple[int, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def deliver(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                shard = shards[index]
                tallies = deliver_shard(database_url(os.environ), claim_id=claim_id, shard=shard)
                rows = [dict(zip(_SCHEMA.names, (shard, *astuple(tally)), strict=True)) for tally in tallies]
                yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    return deliver
