"""Advisory locks, taken for a transaction or for a session, and transactions that are run again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum
from typing import TypeVar

import psycopg
from django.db import InterfaceError, OperationalError, connection
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.domain.locks import Lock


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


class Tick(IntEnum):
    """The ticks that `single_flight` keeps from running twice at once: the second half of a TICK lock's key."""

    FOLD = 1
    RECOVER = 2
    EXPIRE = 3
    HOUSEKEEPING = 4
    RESTART = 5
    DRAIN = 8
    LANES = 9
    OPERATIONS = 10
    COUNTS = 11
    ALERTS = 12
    SEAL = 13
    SAVED_REPORTS = 18
    METRICS = 19


@contextmanager
def alone(lock: Lock, key: int) -> Iterator[bool]:
    """Hold a lock in this session meanwhile; yield False when somebody else holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [lock, key])
        is_alone = bool(cursor.fetchone()[0])
    try:
        yield is_alone
    finally:
        if is_alone:
            _unlock("SELECT pg_advisory_unlock(%s, %s)", [lock, key])


def single_flight(tick: Tick) -> AbstractContextManager[bool]:
    """Hold the tick's lock in this session meanwhile; yield False when somebody else holds it."""
    return alone(Lock.TICK, tick)


@contextmanager
def shared(lock: Lock) -> Iterator[bool]:
    """Hold a lock in this session together with other sharers meanwhile; yield False when somebody has it alone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock_shared(%s, 0)", [lock])
        is_shared = bool(cursor.fetchone()[0])
    try:
        yield is_shared
    finally:
        if is_shared:
            _unlock("SELECT pg_advisory_unlock_shared(%s, 0)", [lock])


def _unlock(sql: str, parameters: Sequence[int]) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
    except (OperationalError, InterfaceError):
        connection.close()  # a session that is over holds nothing


Result = TypeVar("Result")

_RUNS = 5
_GIVEN_UP = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class TransactionRetry(Exception):
    """Raised by a transaction that has seen the ground move under it and will fare better on a second run."""


def retried(transaction: Callable[[], Result]) -> Result:
    """Return what `transaction` returns; run it again, up to five times in all, when it was a deadlock's loser.

    Inside a transaction of the caller's nothing can be run again: the error is the caller's then.
    """
    for runs_left in range(_RUNS - 1, -1, -1):
        try:
            return transaction()
        except (OperationalError, TransactionRetry) as error:
            lost = isinstance(error, TransactionRetry) or isinstance(error.__cause__, _GIVEN_UP)
            if not lost or not runs_left or connection.in_atomic_block:
                raise
    raise AssertionError("not reached")
