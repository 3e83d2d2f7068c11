"""The `regroup` job: reads stored failures, live and archived, and makes the fingerprints of this version of them.

`groups.commands.regrouping` calls it and moves failures. Fingerprints are made in Python, by the functions that
deliveries use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

from pyspark.sql import SparkSession

from poisonadmin.groups.domain.failures import MAX_MASKED_CHARS, fingerprint, stored_failure, title
from poisonadmin.groups.domain.regroup_plan import FailureMove, RegroupedFailure
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.domain.outcomes import Outcome
from workers.spark.pieces import do_pieces
from workers.spark.tables.columns import ATTEMPTS, RowSchema
from workers.spark.tables.source import Extent, TableReader, aliases_in

# A row a pair of fingerprints: a `FailureMove`.
FAILURE_MOVE = RowSchema(
    "was string, fingerprint string, n long, title string, error_class string, message_id long, attempt_number int,"
    " finished_at timestamp, last_at timestamp"
)
# A row a failure: a `RegroupedFailure`.
REGROUPED_FAILURE = RowSchema(
    "message_id long, attempt_number int, former string, was string, fingerprint string, title string"
)
MAX_TITLE_CHARS = 300
REPORTED = (Outcome.IMPORTED, Outcome.RETURNED)

_COLUMNS = ("message_id", "attempt_number", "fingerprint", "error_class", "cause_class", "error_message", "stack",
            "title", "outcome", "finished_at")  # fmt: skip
_FAILURES = [
    (ATTEMPTS.by_name["outcome"], "{} <> 'delivered'"),
    (ATTEMPTS.by_name["fingerprint"], "{} IS NOT NULL"),
]


@dataclass(frozen=True)
class SparkFailureReader:
    """Reads failures by Spark tasks, a range of messages each; files of a piece in one. The tasks read `DATABASE_URL`
    from their environment."""

    spark: SparkSession

    def survey(self, ranges: Sequence[IdRange], files: Sequence[str] = ()) -> list[FailureMove]:
        """Return how many failures go from which fingerprint to which, or keep theirs."""
        extents = extents_of(ranges, files)
        rows = do_pieces(self.spark, len(extents), partial(survey_part, extents), FAILURE_MOVE)
        return [FailureMove(**row) for row in rows]

    def changes(self, ranges: Sequence[IdRange], files: Sequence[str] = ()) -> list[RegroupedFailure]:
        """Return all failures of each message of which one is to have another fingerprint, a message at a time."""
        extents = extents_of(ranges, files)
        rows = do_pieces(self.spark, len(extents), partial(changes_of_part, extents), REGROUPED_FAILURE)
        return [RegroupedFailure(**row) for row in rows]


def extents_of(ranges: Sequence[IdRange], files: Sequence[str]) -> list[Extent]:
    """Return what each task reads."""
    return [*(Extent([one]) for one in ranges), *([Extent(files=files)] if files else [])]


def survey_part(extents: Sequence[Extent], part: int) -> list[dict[str, Any]]:
    """Return the moves of the failures in an extent, as rows."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for failure, row in _failures(extents[part]):
        sample = {name: row[name] for name in ("message_id", "attempt_number", "finished_at")}
        sample |= {"title": failure.title, "error_class": row["error_class"] or ""}
        move = found.setdefault((failure.was, failure.fingerprint), {"n": 0, "last_at": row["finished_at"], **sample})
        if failure[:2] < (move["message_id"], move["attempt_number"]):
            move |= sample
        move |= {"n": move["n"] + 1, "last_at": max(move["last_at"], row["finished_at"])}
    return [{"was": was, "fingerprint": mark, **move} for (was, mark), move in found.items()]


def changes_of_part(extents: Sequence[Extent], part: int) -> list[dict[str, Any]]:
    """Return the failures in an extent that `changes` returns, as rows."""
    found = sorted(failure for failure, _ in _failures(extents[part]))
    messages = (list(some) for _, some in groupby(found, key=lambda one: one.message_id))
    return [one._asdict() for some in messages if any(one.was != one.fingerprint for one in some) for one in some]


def _failures(extent: Extent) -> Iterator[tuple[RegroupedFailure, dict[str, Any]]]:
    aliases = aliases_in(extent.files)
    reader = TableReader(ATTEMPTS, _COLUMNS, extent, 1, _FAILURES, as_written=True)
    for part in reader.partitions():
        for batch in reader.read(part):
            for row in batch.to_pylist():
                former, key = row["fingerprint"], (row["message_id"], row["attempt_number"])
                if former is None or row["outcome"] == Outcome.DELIVERED:
                    continue
                alias = aliases.of(former, *key)
                was = alias.fingerprint if alias else former
                yield RegroupedFailure(*key, former, was, *(as_now(row) or (was, row["title"] or ""))), row


def as_now(row: dict[str, Any]) -> tuple[str, str] | None:
    """Return fingerprint and title of an attempt by the rules of this version; None where it does not say enough."""
    return _of(
        error_class=row["error_class"] or "",
        cause_class=row["cause_class"],
        message=(row["error_message"] or "")[:MAX_MASKED_CHARS],
        stack=row["stack"] or "",
        title=row["title"] or "",
        is_reported=row["outcome"] in REPORTED,
    )


@lru_cache(maxsize=4096)
def _of(**stored: Any) -> tuple[str, str] | None:
    failure = stored_failure(**stored)
    return None if failure is None else (fingerprint(failure), title(failure).replace("\0", "\ufffd")[:MAX_TITLE_CHARS])
