"""The `redeliver` job: each task delivers one shard of a claim and writes its outcomes itself.

One action without a shuffle, so that a task's end is a delivery's end; the node row fences a task that Spark runs again.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, fields

import pyarrow as pa
from pyspark.sql import SparkSession

from workers.delivery.shard import DestinationTally, deliver_shard

TALLY = "shard int, destination_id long, claimed long, begun long, delivered long, failed long, transport_failures long, cause string"
_NAMES = ["shard", *(field.name for field in fields(DestinationTally))]


def redeliver(spark: SparkSession, *, claim_id: int, shards: Sequence[int]) -> list[DestinationTally]:
    """Deliver the claim; return one row a shard and destination. The tasks read `DATABASE_URL` from their environment."""
    each_shard = spark.range(0, len(shards), 1, len(shards))
    rows = each_shard.mapInArrow(_deliver(claim_id, tuple(shards)), TALLY).collect()
    return [DestinationTally(*row[1:]) for row in rows]


def _deliver(claim_id: int, shards: tuple[int, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def deliver(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                shard = shards[index]
                tallies = deliver_shard(os.environ["DATABASE_URL"], claim_id=claim_id, shard=shard)
                columns = list(zip(*((shard, *astuple(tally)) for tally in tallies), strict=True)) or [[]] * len(_NAMES)
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, type) for column, type in zip(columns, _TYPES, strict=True)], names=_NAMES
                )

    return deliver


_TYPES = [pa.int32(), *[pa.int64()] * 6, pa.string()]
