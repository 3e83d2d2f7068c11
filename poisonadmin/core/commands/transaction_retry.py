"""Transactions that the database gave up for another's sake, run once more."""

from collections.abc import Callable
from typing import TypeVar

import psycopg
from django.db import OperationalError, connection

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
