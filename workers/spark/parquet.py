"""Rows of a Parquet file as the fields of envelopes."""

import base64
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.strict_json import InvalidJson
from poisonadmin.intake.domain.envelope import MessageEnvelope, parse_envelope
from poisonadmin.messages.domain.envelope_fields import InvalidEnvelope
from workers.spark.sources import FREE_EXPANSION_BYTES, MAX_EXPANSION, InvalidFile, expansion_limit

# No message is shorter than this as a row, so that no more ids are reserved than a file of its size could need.
_MIN_ROW_BYTES = 16
# Headers of 64 KiB in each row of a batch are half of this.
_MAX_NESTED_BYTES = FREE_EXPANSION_BYTES
_BATCH_ROWS = 512


def _refuse_expansion(facts: pq.FileMetaData, size_bytes: int) -> None:
    """Do nothing for a file that says of itself that it unfolds within bounds; raise InvalidFile otherwise."""
    chunks = (facts.row_group(group).column(place) for group in range(facts.num_row_groups) for place in _places(facts))
    unfolded = sum(chunk.total_uncompressed_size for chunk in chunks)
    if max(unfolded, facts.num_rows * _MIN_ROW_BYTES) > expansion_limit(size_bytes):
        raise InvalidFile("The file expands beyond measure.")


def _repeated_columns(facts: pq.FileMetaData) -> list[str]:
    """Return the columns, nested ones too, whose values may be read as dictionaries: what is repeated is held once."""
    columns = [facts.schema.column(place) for place in _places(facts)]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _refuse_nested_expansion(batch: pa.RecordBatch) -> None:
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


def row_count_of(handle: BinaryIO, size_bytes: int) -> int:
    """Return how many rows the file says it has; `InvalidFile` when it is no Parquet file or expands beyond measure."""
    try:
        facts = pq.read_metadata(handle)
        _refuse_expansion(facts, size_bytes)
        return int(facts.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(f"Not a Parquet file: {error}") from None


def rows_of(handle: BinaryIO, size_bytes: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row with its number from 1, without its nulls.

    Errors: `InvalidFile` when the file is no Parquet file, is damaged, or expands beyond measure.
    """
    limit = expansion_limit(size_bytes)
    number = 0
    try:
        facts = pq.read_metadata(handle)
        _refuse_expansion(facts, size_bytes)
        with pq.ParquetFile(handle, read_dictionary=_repeated_columns(facts)) as table:
            for batch in table.iter_batches(batch_size=_BATCH_ROWS):
                _refuse_nested_expansion(batch)
                for row in _rows(batch):
                    number += 1
                    limit -= sum(len(value) for value in row.values() if isinstance(value, str | bytes))
                    if limit < 0:
                        raise InvalidFile(f"The file expands to more than {MAX_EXPANSION} times its size, or 64 GiB.")
                    yield number, row
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(f"Not a whole Parquet file: {error}") from None


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    # One row at a time: a batch of great payloads must not stand in memory as Python values all at once.
    for index in range(batch.num_rows):
        row = {name: column[index].as_py() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        yield {name: value for name, value in row.items() if value is not None}


def envelope_of(row: dict[str, Any]) -> MessageEnvelope:
    """Return the envelope in a row: the fields of a JSON line as columns.

    `payload` may be binary. `headers` is a map or struct of strings, or JSON text; `dead_letter` a struct or JSON text.
    Errors: `InvalidEnvelope`, as for a line.
    """
    fields = dict(row)
    if isinstance(fields.get("payload"), bytes):
        if "payload_base64" in fields:
            raise InvalidEnvelope("payload_conflict", "payload", "Give payload or payload_base64, not both.")
        fields["payload_base64"] = base64.b64encode(fields.pop("payload")).decode()
    for name in ("headers", "dead_letter"):
        if name in fields:
            fields[name] = _object(name, fields[name])
    return parse_envelope(fields)


def _object(name: str, value: object) -> object:
    if isinstance(value, str):
        try:
            return strict_json.loads(value.encode("utf-8", "surrogatepass"))
        except InvalidJson as error:
            raise InvalidEnvelope(error.code, name, error.detail) from None
    if isinstance(value, list):
        try:
            members = dict(value)
        except (TypeError, ValueError):
            raise InvalidEnvelope(f"invalid_{name}", name, f"{name} must be a map or a struct.") from None
        if len(members) != len(value):
            raise InvalidEnvelope("duplicate_key", name, f"{name} has the same key twice.")
        return members
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if one is not None}
    return value


def raw_of(row: dict[str, Any]) -> bytes:
    """Return a row that was refused as a line of JSON; bytes become base64, a binary payload `payload_base64`."""
    shown = dict(row)
    if isinstance(shown.get("payload"), bytes):
        shown["payload_base64"] = shown.pop("payload")
    return json.dumps(shown, ensure_ascii=False, default=_shown).encode("utf-8", "surrogatepass")


def _shown(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
