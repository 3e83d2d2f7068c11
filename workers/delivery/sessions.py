"""The database sessions of a delivering task, kept from shard to shard: to open one costs more than a small shard."""

from typing import LiteralString, Self

import psycopg

Session = psycopg.Connection[tuple[object, ...]]


class Sessions:
    """A session that reads, one that a node writes with, and one that listens; each is opened when it is asked for.

    Closed on exit. `reading`: whose reader is to be used, where it is shared.
    """

    def __init__(self, dsn: str, reading: "Sessions | None" = None) -> None:
        self._dsn = dsn
        self._reading = reading
        self._open: dict[str, Session] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reader(self) -> Session:
        """Return the session to read with. Errors: `psycopg.OperationalError`."""
        return self._session("poisonadmin reader") if self._reading is None else self._reading.reader()

    def listener(self) -> Session:
        """Return the session that waits for notifications. Errors: `psycopg.OperationalError`."""
        return self._session("poisonadmin listener")

    def beside(self) -> "Sessions":
        """Return others that share the reader."""
        return Sessions(self._dsn, reading=self)

    def node(self) -> Session:
        """Return the session of the node. Errors: `psycopg.OperationalError`."""
        return self._session("poisonadmin node")

    def close(self) -> None:
        """Close what is open; what is asked for next is a new one."""
        for session in self._open.values():
            session.close()
        self._open.clear()

    def _session(self, name: str) -> Session:
        session = self._open.get(name)
        if session is None or session.closed or session.broken:
            session = psycopg.connect(self._dsn, autocommit=True, connect_timeout=5, application_name=name)
            self._open[name] = session
        return session


def listen(session: Session, channel: LiteralString) -> None:
    """Have the session keep the channel's notifications from now on."""
    session.execute(f"LISTEN {channel}")


def wait_for_notification(session: Session, seconds: float) -> None:
    """Return when a notification came, since the last call too, or after `seconds`.

    Errors: `psycopg.OperationalError`.
    """
    for _ in session.notifies(timeout=max(0.0, seconds), stop_after=1):
        pass
