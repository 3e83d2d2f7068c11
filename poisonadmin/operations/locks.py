"""Advisory locks, named in one place so that two uses never share a number."""

from enum import IntEnum

from django.db.backends.utils import CursorWrapper


class Lock(IntEnum):
    """The first half of each two-part lock key. NODE, JOB and SOURCE are held by sessions, the others by transactions."""

    NODE = 20
    JOB = 21
    CLAIM = 22
    POLICIES = 23
    TICK = 24
    STAGED_BATCH = 25  # workers/spark/sinks.py takes it too
    SOURCE = 26


def try_lock(cursor: CursorWrapper, lock: Lock, key: int = 0) -> bool:
    """Take the lock until the transaction ends, if nobody holds it; return whether it was taken."""
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [lock, key])
    return bool(cursor.fetchone()[0])


def share(cursor: CursorWrapper, lock: Lock, key: int = 0) -> None:
    """Wait for and hold the lock together with other sharers until the transaction ends."""
    cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", [lock, key])


def hold(cursor: CursorWrapper, lock: Lock, key: int = 0) -> None:
    """Wait for and hold the lock alone until the transaction ends."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [lock, key])
