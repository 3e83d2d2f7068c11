"""The parts of a report, each the rows of one wave, and the file that is made of them."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from poisonadmin.core.commands.exports.formats import Writer, batch_of, writer_of
from poisonadmin.core.domain.exports import Row, Schema
from poisonadmin.reports.commands import files
from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.reports.domain.groups import folded
from poisonadmin.reports.queries.rows import grouped

# So many rows are written before somebody may cut in.
BATCH_ROWS = 5_000
# Batches that are made into what the file holds while one is written, each of so many bytes at most.
_SHAPED_AHEAD = 2
_SHAPED_BYTES = 4 * 1024 * 1024


def write_part(report_id: int, number: int, rows: Any) -> Path:
    """Write an Arrow table as the draft of a part, and return its path."""
    draft = files.draft_of(report_id, files.part_name(number))
    with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=BATCH_ROWS)
    return draft


def make_file(report_id: int, asked: AskedReport, parts: int) -> Iterator[int]:
    """Make the draft of the file from the parts; yield how many rows are written, now and then and at the end."""
    draft = files.draft_of(report_id, files.name_of(asked.format))
    schema, batches = _content(report_id, asked, parts)
    writer, rows = writer_of(asked.format, schema, asked.time_zone, draft), 0
    try:
        with ThreadPoolExecutor(_SHAPED_AHEAD, "report") as pool:
            for shaped, count in _shaped(pool, writer, batches):
                writer.put(shaped)
                rows += count
                yield rows
    finally:
        writer.close()
    yield rows


def _shaped(pool: Executor, writer: Writer, batches: Iterator[Any]) -> Iterator[tuple[Any, int]]:
    """Yield what the writer makes of each batch, and its rows, in their order; the next ones are made meanwhile."""
    waiting: deque[tuple[Future[Any], int]] = deque()
    for batch in batches:
        waiting.append((pool.submit(writer.shape, batch), batch.num_rows))
        if len(waiting) > _SHAPED_AHEAD:
            first, count = waiting.popleft()
            yield first.result(), count
    for first, count in waiting:
        yield first.result(), count


def _content(report_id: int, asked: AskedReport, parts: int) -> tuple[Schema, Iterator[Any]]:
    """Return the columns and the rows of the file."""
    found = (batch for number in range(parts) for batch in _part(report_id, number))
    if asked.measures is None:
        return asked.schema, found
    table = folded(asked, grouped(asked, _counted(found)))
    starts = range(0, len(table.rows), BATCH_ROWS)
    return table.schema, (batch_of(table.schema, table.rows[start : start + BATCH_ROWS]) for start in starts)


def _part(report_id: int, number: int) -> Iterator[Any]:
    with files.open_part(report_id, number) as source, pa.ipc.open_file(source) as reader:
        for place in range(reader.num_record_batches):
            yield from _sized(reader.get_batch(place))


def _sized(batch: Any) -> Iterator[Any]:
    """Yield the rows of a batch, so many at once as are of a few megabytes together."""
    rows = max(1, batch.num_rows * _SHAPED_BYTES // max(batch.nbytes, _SHAPED_BYTES))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _counted(batches: Iterator[Any]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
