"""The `regroup` job: stored failures are given the fingerprints that the rules of this version make of them.

A task reads the failures of a range of messages, and notes those that are to have another fingerprint.
`messages.commands.regrouping` calls it and moves them.
"""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row
from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.groups.domain.failures import MAX_MASKED_CHARS, fingerprint, stored_failure, title
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.domain.outcome import Outcome
from workers.spark.pieces import do_pieces
from workers.spark.schemas import REGROUPED_PART

_ROWS = 2000
MAX_TITLE_CHARS = 300
REPORTED = (Outcome.IMPORTED, Outcome.RETURNED)

# Held to the end: nobody plans by what is noted before it is committed, and nobody notes anything afterwards.
_IS_WANTED = "SELECT FROM regrouping WHERE id = %s AND planned_at IS NULL FOR SHARE"
_FORGET = "DELETE FROM regrouped_attempt WHERE message_id > %(after)s AND message_id <= %(until)s"
_FAILURES = f"""
SELECT message_id, attempt_number, fingerprint, coalesce(error_class, '') AS error_class, cause_class,
       left(coalesce(error_message, ''), {MAX_MASKED_CHARS}) AS message, coalesce(stack, '') AS stack,
       coalesce(title, '') AS title, outcome IN ('{REPORTED[0]}', '{REPORTED[1]}') AS is_reported
FROM attempt
WHERE message_id > %(after)s AND message_id <= %(until)s AND outcome <> 'delivered' AND fingerprint IS NOT NULL
ORDER BY message_id, attempt_number
"""  # noqa: S608  (constants)
_NOTE = "COPY regrouped_attempt (message_id, attempt_number, was, fingerprint, title) FROM STDIN"
_MOVES = """
INSERT INTO regroup_move (was, fingerprint) SELECT * FROM unnest(%s::text[], %s::text[]) AS one (was, fingerprint)
ORDER BY 1, 2 ON CONFLICT DO NOTHING
"""


class LoggedFailure(NamedTuple):
    """A row of the failure log, as far as a fingerprint is made of it."""

    message_id: int
    attempt_number: int
    fingerprint: str
    error_class: str
    cause_class: str | None
    message: str
    stack: str
    title: str
    is_reported: bool


def survey(spark: SparkSession, regrouping_id: int, ranges: Sequence[IdRange]) -> tuple[int, int]:
    """Note which failures of these ranges are to have another fingerprint; return how many were read, and how many are.

    A range may be surveyed again. The tasks read `DATABASE_URL` from their environment.
    """
    rows = do_pieces(spark, len(ranges), partial(_survey_range, regrouping_id, tuple(ranges)), REGROUPED_PART)
    return sum(row["read"] for row in rows), sum(row["changed"] for row in rows)


def _survey_range(regrouping_id: int, ranges: Sequence[IdRange], part: int) -> list[dict[str, Any]]:
    ids = {"after": ranges[part].after, "until": ranges[part].until}
    read = changed = 0
    moves: set[tuple[str, str]] = set()
    # Two sessions: one cannot read and copy at the same time.
    with psycopg.connect(database_url(os.environ)) as reader, psycopg.connect(database_url(os.environ)) as writer:
        if writer.execute(_IS_WANTED, [regrouping_id]).fetchone() is None:
            return []
        writer.execute(_FORGET, ids)
        with writer.cursor().copy(_NOTE) as copy:
            for stored in _failures(reader, ids):
                read += 1
                mark, line = as_now(stored)
                moves.add((stored.fingerprint, mark))
                if mark != stored.fingerprint:
                    changed += 1
                    copy.write_row((stored.message_id, stored.attempt_number, stored.fingerprint, mark, line))
        writer.execute(_MOVES, [[was for was, _ in moves], [now for _, now in moves]])
    return [{"part": part, "read": read, "changed": changed}]


def _failures(connection: "psycopg.Connection[tuple[object, ...]]", ids: dict[str, int]) -> Iterator[LoggedFailure]:
    with connection.transaction(), connection.cursor("failures", row_factory=class_row(LoggedFailure)) as cursor:
        cursor.itersize = _ROWS
        yield from cursor.execute(_FAILURES, ids)


def as_now(stored: LoggedFailure) -> tuple[str, str]:
    """Return fingerprint and title by the rules of this version; those that it has where it does not say enough."""
    return _of(*stored[3:]) or (stored.fingerprint, stored.title)


@lru_cache(maxsize=4096)
def _of(
    error_class: str, cause_class: str | None, message: str, stack: str, line: str, is_reported: bool
) -> tuple[str, str] | None:
    failure = stored_failure(
        error_class=error_class,
        cause_class=cause_class,
        message=message,
        stack=stack,
        title=line,
        is_reported=is_reported,
    )
    return None if failure is None else (fingerprint(failure), title(failure).replace("\0", "\ufffd")[:MAX_TITLE_CHARS])
