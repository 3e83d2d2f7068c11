"""How much a Parquet file may unfold to: a few bytes of it can stand for more than any memory (RELIABILITY S2)."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workers.spark.sources import FREE_EXPANSION_BYTES, InvalidFile, expansion_limit

# No message is shorter than this as a row, so that no more ids are reserved than a file of its size could need.
_MIN_ROW_BYTES = 16
# Headers of 64 KiB in each row of a batch are half of this.
_MAX_NESTED_BYTES = FREE_EXPANSION_BYTES


def refuse_expansion(facts: pq.FileMetaData, size_bytes: int) -> None:
    """Do nothing for a file that says of itself that it unfolds within bounds; raise InvalidFile otherwise."""
    chunks = (facts.row_group(group).column(place) for group in range(facts.num_row_groups) for place in _places(facts))
    unfolded = sum(chunk.total_uncompressed_size for chunk in chunks)
    if max(unfolded, facts.num_rows * _MIN_ROW_BYTES) > expansion_limit(size_bytes):
        raise InvalidFile("The file expands beyond measure.")


def repeated_columns(facts: pq.FileMetaData) -> list[str]:
    """Return the columns, nested ones too, whose values may be read as dictionaries: what is repeated is held once."""
    columns = [facts.schema.column(place) for place in _places(facts)]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def refuse_nested_expansion(batch: pa.RecordBatch) -> None:
    """Do nothing for a batch whose lists, maps and structs are of a size that messages have; raise InvalidFile."""
    nested = sum(_bytes_in(column) for column in batch.columns if pa.types.is_nested(column.type))
    if nested > _MAX_NESTED_BYTES:
        raise InvalidFile("The file's lists, maps or structs expand beyond measure.")


def _places(facts: pq.FileMetaData) -> range:
    return range(facts.num_columns)


def _bytes_in(values: pa.Array) -> int:
    """Return about how many bytes the values take once each stands for itself."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(values.dictionary).cast(pa.int64())
        return pc.sum(lengths.take(values.indices)).as_py() or 0
    if pa.types.is_map(kind):
        return _bytes_in(values.keys) + _bytes_in(values.items) + 8 * len(values.keys)
    if pa.types.is_struct(kind):
        return sum(_bytes_in(part) for part in values.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = values.flatten()
        return _bytes_in(inner) + 8 * len(inner)
    return int(values.nbytes)
