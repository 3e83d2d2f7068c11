"""The rows of one part into PostgreSQL: bodies and staged rows by COPY, one transaction a part.

A part is there whole or not at all. A try that finds it there, since Spark tries a task again, leaves it as it is; one
that finds another at it waits for that one's end first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import orjson
import psycopg

from poisonadmin.core.domain.locks import Lock
from poisonadmin.intake.domain import staged_rows
from poisonadmin.intake.domain.staged_rows import KEY_COPY, KEY_TYPES, IntakeRow, key_rows
from poisonadmin.messages.domain.envelope_fields import InvalidEnvelope, storable
from poisonadmin.policies.domain.resolution import PolicyIndex, PolicySpec
from workers.spark.sources import FileGone, FilePart, InvalidFile

_NAMED = "SELECT EXISTS (SELECT FROM policy WHERE settings ? 'business_keys')"
_POLICIES = "SELECT match, preset, settings FROM policy ORDER BY id"
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


def policies_with_keys(cursor: psycopg.Cursor) -> PolicyIndex | None:
    """Return the policies in force; None where none of them names a key."""
    named = cursor.execute(_NAMED).fetchone()
    if not (named and named[0]):
        return None
    return PolicyIndex(PolicySpec(*row) for row in cursor.execute(_POLICIES))


def copy_keys(cursor: psycopg.Cursor, rows: Iterable[tuple[int, IntakeRow]], policies: PolicyIndex) -> None:
    """Write the keys of staged rows, by their ids."""
    found = list(key_rows(rows, policies, loads=orjson.loads))
    if found:
        with cursor.copy(KEY_COPY) as copy:
            copy.set_types(KEY_TYPES)
            for row in found:
                copy.write_row(row)


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
            taken = list(islice(ids, len(one.good)))
            _copy_good(cursor, part, taken, one.good)
            if policies is not None:
                copy_keys(cursor, zip(taken, (row for _, row in one.good), strict=True), policies)
            _copy_bad(cursor, part, one.bad)
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


def _copy_good(cursor: psycopg.Cursor, part: FilePart, ids: list[int], good: list[tuple[int, IntakeRow]]) -> None:
    if len(ids) < len(good):
        raise FileGone("The file has more lines than when they were counted.")
    with cursor.copy(staged_rows.BODY_COPY) as copy:
        copy.set_types(staged_rows.BODY_TYPES)
        for row_id, (_, row) in zip(ids, good, strict=True):
            copy.write_row(staged_rows.body_row(row_id, row))
    batch = part.batch
    with cursor.copy(staged_rows.STAGED_COPY) as copy:
        copy.set_types(staged_rows.STAGED_TYPES)
        for row_id, (line, row) in zip(ids, good, strict=True):
            # The same line of the same file has the same id, however often it is read.
            made_id = f"file-{part.file.id}-{line}"
            copy.write_row(staged_rows.staged_row(row_id, row, made_id, batch=batch, line=line))


def _copy_bad(cursor: psycopg.Cursor, part: FilePart, bad: list[tuple[int, InvalidEnvelope, bytes]]) -> None:
    if not bad:
        return
    with cursor.copy(staged_rows.REJECTED_COPY) as copy:
        copy.set_types(staged_rows.REJECTED_TYPES)
        for line, why, raw in bad:
            copy.write_row((part.file.source_id, part.file.id, part.batch, line, why.code, storable(why.detail), raw))


def reserve_ids(counts: Sequence[int], database_url: str) -> list[list[tuple[int, int]]]:
    """Take `counts` message ids for each place; return their (first, last) ranges, which grow from place to place."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in counts]
    with psycopg.connect(database_url) as connection:
        for place, first, last in connection.execute(_RESERVE, {"counts": list(counts)}):
            ranges[place].append((first, last))
    return ranges
