"""The rows of one part into PostgreSQL: bodies and staged rows by COPY, one transaction a part.

A part is there whole or not at all. A try that finds it there, since Spark tries a task again, leaves it as it is; one
that finds another at it waits for that one's end first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import psycopg

from poisonadmin.core.domain.locks import Lock
from poisonadmin.intake.domain.staged_rows import IntakeRow
from poisonadmin.messages.domain.envelope_fields import InvalidEnvelope
from poisonadmin.policies.domain.resolution import PolicyIndex
from workers.spark.sources import FileGone, FilePart, InvalidFile
from workers.staging import policies_with_keys, write_set_aside, write_staged

SLICE_ROWS = 5000
SLICE_BYTES = 8 * 1024 * 1024
# A file that begins with so many lines of which none is a message is something else: nobody will look at each of them.
HOPELESS_LINES = 10_000
# Held to the end: a file cannot become STAGED while a part of it is being staged, nor be staged once it is.
_IS_WANTED = "SELECT FROM source_file WHERE id = %s AND state = 'seen' FOR SHARE"
_ALREADY = """
SELECT (SELECT count(*) FROM staged_message WHERE batch = %(batch)s),
       (SELECT count(*) FROM rejected_line WHERE batch = %(batch)s)
"""
Parsed = tuple[int, IntakeRow | InvalidEnvelope, bytes]
"""A line's number, what it says or why it says nothing, and its bytes (empty where they are not needed)."""
# Nobody else's `nextval` can be kept from coming in between: ids are islands of consecutive numbers, mostly one a part.
_RESERVE = """
WITH ids AS MATERIALIZED (
    SELECT part.place, nextval((SELECT pg_get_serial_sequence('message', 'id')::regclass)) AS id
    FROM unnest(%(counts)s::bigint[]) WITH ORDINALITY AS part(size, place)
         CROSS JOIN LATERAL generate_series(1, part.size)
), islands AS (
    SELECT place, id, id - row_number() OVER (ORDER BY id) AS island FROM ids
)
SELECT place - 1, min(id), max(id) FROM islands GROUP BY place, island ORDER BY min(id)
"""


@dataclass(frozen=True)
class StagedCounts:
    """Counts of the lines of a part that are staged, and that are set aside."""

    staged: int
    rejected: int


@dataclass
class _PartSlice:
    good: list[tuple[int, IntakeRow]] = field(default_factory=list)
    bad: list[tuple[int, InvalidEnvelope, bytes]] = field(default_factory=list)


def stage(part: FilePart, parsed: Iterable[Parsed], database_url: str) -> StagedCounts:
    """Stage the part's lines under its batch, unless they are there already; return how many there are.

    `parsed` is read only when they are not there. When it raises, nothing of the part is kept.
    Errors: `FileGone` when the file is not SEEN any more; `InvalidFile` when it is no file of messages.
    """
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [Lock.STAGED_BATCH, part.batch])
        cursor.execute(_ALREADY, {"batch": part.batch})
        already = StagedCounts(*(cursor.fetchone() or (0, 0)))
        if already.staged or already.rejected:
            return already
        if cursor.execute(_IS_WANTED, [part.file.id]).fetchone() is None:
            raise FileGone("The file is taken or forgotten already.")
        staged = rejected = 0
        ids = part.ids
        policies = policies_with_keys(cursor)
        for one in _slices(parsed):
            _copy_good(cursor, part, ids, one.good, policies)
            write_set_aside(cursor, part.batch, one.bad, source_id=part.file.source_id, file_id=part.file.id)
            staged += len(one.good)
            rejected += len(one.bad)
            if not staged and rejected >= HOPELESS_LINES and part.start == 0:
                raise InvalidFile(f"None of its first {rejected:,} lines is a message.")
        return StagedCounts(staged, rejected)


def _slices(parsed: Iterable[Parsed]) -> Iterator[_PartSlice]:
    lines = iter(parsed)
    while rows := list(_up_to_size(islice(lines, SLICE_ROWS))):
        one = _PartSlice()
        for line, outcome, raw in rows:
            if isinstance(outcome, InvalidEnvelope):
                one.bad.append((line, outcome, raw))
            else:
                one.good.append((line, outcome))
        yield one


def _up_to_size(lines: Iterable[Parsed]) -> Iterator[Parsed]:
    room = SLICE_BYTES
    for line in lines:
        yield line
        room -= len(line[2]) if isinstance(line[1], InvalidEnvelope) else len(line[1][2])
        if room <= 0:
            return


def _copy_good(
    cursor: psycopg.Cursor,
    part: FilePart,
    ids: Iterator[int],
    good: list[tuple[int, IntakeRow]],
    policies: PolicyIndex | None,
) -> None:
    # The same line of the same file has the same id, however often it is read.
    rows = [(row_id, line, row, f"file-{part.file.id}-{line}") for (line, row), row_id in zip(good, ids, strict=False)]
    if len(rows) < len(good):
        raise FileGone("The file has more lines than when they were counted.")
    write_staged(cursor, part.batch, rows, policies)


def reserve_ids(counts: Sequence[int], database_url: str) -> list[list[tuple[int, int]]]:
    """Take `counts` message ids for each place; return their (first, last) ranges, which grow from place to place."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in counts]
    with psycopg.connect(database_url) as connection:
        for place, first, last in connection.execute(_RESERVE, {"counts": list(counts)}):
            ranges[place].append((first, last))
    return ranges
