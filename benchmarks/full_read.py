"""The tasks of a full read of stored messages, to compare a dry run with. No Django here: executors have none."""

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import psycopg
import pyarrow as pa

from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.rules.domain.content_rules import MAX_JSON_BYTES
from workers.spark.jobs.dry_run import messages_in


def read_ranges(
    ranges: tuple[IdRange, ...], addresses: tuple[int, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield how many messages each range has, after reading every column that a rule may ask for."""
    for batch in batches:
        for part in batch.column(0).to_pylist():
            with psycopg.connect(os.environ["DATABASE_URL"]) as reader:
                stored = messages_in(
                    reader, ranges[part], addresses, now=datetime.now(UTC), max_payload_bytes=MAX_JSON_BYTES
                )
                count = sum(1 for _ in stored)
            yield pa.RecordBatch.from_pydict({"n": pa.array([count], pa.int64())})
