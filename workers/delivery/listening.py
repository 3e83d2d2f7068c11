"""Waiting for a notification of the database."""

import time
from collections.abc import Callable
from typing import LiteralString

from workers.delivery.sessions import Session

# How soon a wait notices that it is not wanted any more.
STEP_SECONDS = 0.2


def listen(session: Session, channel: LiteralString) -> None:
    """Have the session keep the channel's notifications from now on."""
    session.execute(f"LISTEN {channel}")


def wait(session: Session, seconds: float, *, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Return True when a notification came, since the last call too; False after `seconds`, or soon when `is_over`.

    Errors: `psycopg.OperationalError`.
    """
    until = time.monotonic() + seconds
    while not is_over():
        step = min(STEP_SECONDS, until - time.monotonic())
        if any(True for _ in session.notifies(timeout=max(0.0, step), stop_after=1)):
            return True
        if time.monotonic() >= until:
            return False
    return False
