"""Receipts of messages without an id that were stored and may not be acknowledged yet: given out again, they are
recognised.

Two equal messages have equal digests, so a receipt stands for a copy only when nobody holds the one it was written for:
each reader holds an advisory lock as long as it lives. A copy is stored twice rather than lost.
"""

import secrets
import time
from collections import Counter
from collections.abc import Sequence

import psycopg

from poisonadmin.core.domain.locks import Lock

# So long a reader may take to acknowledge what it has stored, or to end, before its copies are no longer waited for.
HOLDER_SECONDS = 5.0
_POLL_SECONDS = 0.1

_OWNERS = f"""
SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = {Lock.READER:d} AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""  # noqa: S608  (a constant)
_HELD_BY_OTHERS = f"""
SELECT EXISTS (SELECT FROM broker_receipt WHERE source_id = %s AND digest = ANY(%s) AND owner <> %s
               AND owner IN ({_OWNERS}))
"""  # noqa: S608
_UNHELD = f"""
SELECT id, digest FROM broker_receipt WHERE source_id = %s AND digest = ANY(%s) AND owner <> %s
    AND owner NOT IN ({_OWNERS}) ORDER BY id FOR UPDATE
"""  # noqa: S608
_WRITE = """
INSERT INTO broker_receipt (source_id, digest, owner) SELECT %s, digest, %s FROM unnest(%s::bytea[]) AS digest
RETURNING id
"""


class Receipts:
    """One reader's receipts. The connection is its own, as long as it reads."""

    def __init__(self, connection: "psycopg.Connection[tuple[object, ...]]", source_id: int) -> None:
        self._source_id = source_id
        self._owner = 0
        while not self._owner:
            wanted = 1 + secrets.randbelow(2**31 - 1)
            row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.READER, wanted]).fetchone()
            self._owner = wanted if row is not None and row[0] else 0
        connection.commit()

    def wait_for_holders(self, connection: "psycopg.Connection[tuple[object, ...]]", digests: Sequence[bytes]) -> None:
        """Return when no other reader that lives holds a message like these, or has done so for too long."""
        deadline = time.monotonic() + HOLDER_SECONDS
        while digests and time.monotonic() < deadline:
            row = connection.execute(_HELD_BY_OTHERS, [self._source_id, list(digests), self._owner]).fetchone()
            connection.commit()
            if row is None or not row[0]:
                return
            time.sleep(_POLL_SECONDS)

    def recognise(self, cursor: psycopg.Cursor, digests: Sequence[bytes]) -> list[tuple[bytes, int]]:
        """Take over receipts for copies of these digests; return those, with their ids: they are stored already."""
        if not digests:
            return []
        wanted = Counter(digests)
        found: list[tuple[bytes, int]] = []
        for receipt_id, digest in cursor.execute(_UNHELD, [self._source_id, list(wanted), self._owner]).fetchall():
            if wanted[bytes(digest)] > 0:
                wanted[bytes(digest)] -= 1
                found.append((bytes(digest), int(receipt_id)))
        ids = [receipt_id for _, receipt_id in found]
        cursor.execute("UPDATE broker_receipt SET owner = %s WHERE id = ANY(%s)", [self._owner, ids])
        return found

    def write(self, cursor: psycopg.Cursor, digests: Sequence[bytes]) -> list[int]:
        """Write a receipt a digest; return their ids."""
        if not digests:
            return []
        return [row[0] for row in cursor.execute(_WRITE, [self._source_id, self._owner, list(digests)]).fetchall()]

    def remove(self, cursor: psycopg.Cursor, ids: Sequence[int]) -> None:
        """Remove the receipts of what is acknowledged."""
        if ids:
            cursor.execute("DELETE FROM broker_receipt WHERE id = ANY(%s)", [list(ids)])

    def leave(self, cursor: psycopg.Cursor, digests: Sequence[bytes]) -> None:
        """Write receipts that nobody holds: what was acknowledged may be given out again all the same."""
        if digests:
            cursor.execute(_WRITE, [self._source_id, 0, list(digests)])
