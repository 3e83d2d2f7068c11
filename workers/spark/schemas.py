"""The shapes of the rows that the tasks of a job hand back to its driver."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class RowSchema:
    """The same columns for Spark, which declares them, and for Arrow, which carries them."""

    spark: str
    arrow: pa.Schema


# One row a part. `outcome` is a `Staging`; `error` is null for a part that is staged.
STAGED_PART = RowSchema(
    "part long, outcome string, staged long, rejected long, error string",
    pa.schema(
        {
            "part": pa.int64(),
            "outcome": pa.string(),
            "staged": pa.int64(),
            "rejected": pa.int64(),
            "error": pa.string(),
        }
    ),
)
# One row a part, before it is staged. `newlines` and `messages`, the most there can be and
# one more, are null unless the outcome is STAGED: it can be read.
SURVEYED_PART = RowSchema(
    "part long, outcome string, newlines long, messages long, error string",
    pa.schema(
        {
            "part": pa.int64(),
            "outcome": pa.string(),
            "newlines": pa.int64(),
            "messages": pa.int64(),
            "error": pa.string(),
        }
    ),
)
# One row a place that the rule matched in a part, and one more with what was read, whose `address` is null.
TRIED_PART = RowSchema(
    "part long, address string, group_id long, messages long, samples array<long>, error string",
    pa.schema(
        {
            "part": pa.int64(),
            "address": pa.string(),
            "group_id": pa.int64(),
            "messages": pa.int64(),
            "samples": pa.list_(pa.int64()),
            "error": pa.string(),
        }
    ),
)
# One row a shard of a broker source: domain/draining.py, Drained.
DRAINED_SHARD = RowSchema(
    "staged long, recognised long, rejected long, is_empty boolean, error string",
    pa.schema(
        {
            "staged": pa.int64(),
            "recognised": pa.int64(),
            "rejected": pa.int64(),
            "is_empty": pa.bool_(),
            "error": pa.string(),
        }
    ),
)
# One row a file of the archive; and first one a piece, whose `versions` (JSON) is not null.
ARCHIVED_PART = RowSchema(
    "piece long, versions string, table string, day string, root string, path string, rows long, bytes long,"
    " sha256 string, rows_sha256 string, first_id long, last_id long",
    pa.schema(
        {
            "piece": pa.int64(),
            "versions": pa.string(),
            "table": pa.string(),
            "day": pa.string(),
            "root": pa.string(),
            "path": pa.string(),
            "rows": pa.int64(),
            "bytes": pa.int64(),
            "sha256": pa.string(),
            "rows_sha256": pa.string(),
            "first_id": pa.int64(),
            "last_id": pa.int64(),
        }
    ),
)
# One row a value of a field of a message, as poisonadmin/comparisons/domain/features.py says.
FEATURE = RowSchema(
    "id long, failing boolean, field string, text string, number double",
    pa.schema(
        {"id": pa.int64(), "failing": pa.bool_(), "field": pa.string(), "text": pa.string(), "number": pa.float64()}
    ),
)
# One row a fingerprint, as poisonadmin/groups/alike/domain/compared.py says; `place`: the fingerprint's in the order in
# which groups should stay, `tokens`: what a MinHash compares, never empty.
COMPARED_FAILURE = RowSchema(
    "place int, kind string, message string, frames array<string>, tokens array<string>",
    pa.schema(
        {
            "place": pa.int32(),
            "kind": pa.string(),
            "message": pa.string(),
            "frames": pa.list_(pa.string()),
            "tokens": pa.list_(pa.string()),
        }
    ),
)
# One row a pair of fingerprints, as poisonadmin/groups/domain/regroup_plan.py says (FailureMove).
FAILURE_MOVE = RowSchema(
    "was string, fingerprint string, n long, title string, error_class string, message_id long, attempt_number int,"
    " finished_at timestamp, last_at timestamp",
    pa.schema(
        {
            "was": pa.string(),
            "fingerprint": pa.string(),
            "n": pa.int64(),
            "title": pa.string(),
            "error_class": pa.string(),
            "message_id": pa.int64(),
            "attempt_number": pa.int32(),
            "finished_at": pa.timestamp("us", tz="UTC"),
            "last_at": pa.timestamp("us", tz="UTC"),
        }
    ),
)
# One row a failure (RegroupedFailure).
REGROUPED_FAILURE = RowSchema(
    "message_id long, attempt_number int, former string, was string, fingerprint string, title string",
    pa.schema(
        {
            "message_id": pa.int64(),
            "attempt_number": pa.int32(),
            "former": pa.string(),
            "was": pa.string(),
            "fingerprint": pa.string(),
            "title": pa.string(),
        }
    ),
)
