"""Staged rows, with their bodies and their business keys, and what is set aside: written by COPY."""

from collections.abc import Iterable, Sequence

import orjson
import psycopg

from poisonadmin.intake.domain import staged_rows
from poisonadmin.intake.domain.staged_rows import IntakeRow, key_rows
from poisonadmin.messages.domain.envelope_fields import InvalidEnvelope, storable
from poisonadmin.policies.domain.resolution import PolicyIndex, PolicySpec

_NAMED = "SELECT EXISTS (SELECT FROM policy WHERE settings ? 'business_keys')"
_POLICIES = "SELECT match, preset, settings FROM policy ORDER BY id"

NewRow = tuple[int, int, IntakeRow, str]
"""A row's id, its line, the row, and its message's id where its producer gave it none."""
SetAside = tuple[int, InvalidEnvelope, bytes]
"""A line, why it is no message, and its bytes."""


def policies_with_keys(cursor: psycopg.Cursor) -> PolicyIndex | None:
    """Return the policies in force; None where none of them names a key."""
    named = cursor.execute(_NAMED).fetchone()
    if not (named and named[0]):
        return None
    return PolicyIndex(PolicySpec(*row) for row in cursor.execute(_POLICIES))


def write_staged(cursor: psycopg.Cursor, batch: str, rows: Sequence[NewRow], policies: PolicyIndex | None) -> None:
    """Write rows under a batch, with the keys that the policies name."""
    bodies = (staged_rows.body_row(row_id, row) for row_id, _, row, _ in rows)
    _copy(cursor, staged_rows.BODY_COPY, staged_rows.BODY_TYPES, bodies)
    staged = (staged_rows.staged_row(row_id, row, made, batch=batch, line=line) for row_id, line, row, made in rows)
    _copy(cursor, staged_rows.STAGED_COPY, staged_rows.STAGED_TYPES, staged)
    if policies is not None:
        ids = ((row_id, row) for row_id, _, row, _ in rows)
        if keys := list(key_rows(ids, policies, loads=orjson.loads)):
            _copy(cursor, staged_rows.KEY_COPY, staged_rows.KEY_TYPES, keys)


def write_set_aside(
    cursor: psycopg.Cursor, batch: str, some: Sequence[SetAside], *, source_id: int | None, file_id: int | None = None
) -> None:
    """Write what is no message, of a source's broker or of one of its files."""
    rows = ((source_id, file_id, batch, line, why.code, storable(why.detail), raw) for line, why, raw in some)
    if some:
        _copy(cursor, staged_rows.REJECTED_COPY, staged_rows.REJECTED_TYPES, rows)


def _copy(cursor: psycopg.Cursor, statement: str, types: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with cursor.copy(statement) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
