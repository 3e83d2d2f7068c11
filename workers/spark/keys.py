"""Business keys of what a task stages."""

from collections.abc import Iterable

import orjson
import psycopg

from poisonadmin.intake.domain.staged_rows import KEY_COPY, KEY_TYPES, IntakeRow, key_rows
from poisonadmin.policies.domain.resolution import PolicyIndex, PolicySpec

_NAMED = "SELECT EXISTS (SELECT FROM policy WHERE settings ? 'business_keys')"
_POLICIES = "SELECT match, preset, settings FROM policy ORDER BY id"


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
