"""Waiting for a notification of the database."""

from typing import LiteralString

from workers.delivery.sessions import Session


def listen(session: Session, channel: LiteralString) -> None:
    """Have the session keep the channel's notifications from now on."""
    session.execute(f"LISTEN {channel}")


def wait(session: Session, seconds: float) -> None:
    """Return when a notification came, since the last call too, or after `seconds`.

    Errors: `psycopg.OperationalError`.
    """
    for _ in session.notifies(timeout=max(0.0, seconds), stop_after=1):
        pass
