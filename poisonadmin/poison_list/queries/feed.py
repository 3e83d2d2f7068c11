"""The poison list of a source as it is, and then as it changes, for as long as somebody listens.

A web process that has listeners holds two connections to the database: one waits for notifications, which say no more
than that something has changed, the other reads what. Behind a pooler that gives each transaction another session
nobody can be notified: the first one asks every second then. Nothing is kept for a listener but the number of the last
change it was given, so a slow one costs no memory and misses nothing. When a connection is lost every listener's stream
ends: whoever is listening comes back and is given the list anew.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import psycopg
from asgiref.sync import sync_to_async
from django.db import connection
from psycopg.rows import class_row

from poisonadmin.core.domain.locks import POISON_LIST_CHANNEL
from poisonadmin.store.schema import has_sessions

# Sent on POISON_LIST_CHANNEL in place of a change number when somebody's right to listen has ended.
REVOKED = "revoked"
# Of both connections, where the database shows who is connected.
NAME = "poisonadmin poison list"
KEEP_ALIVE_SECONDS = 10.0
# Between two checks for changes, where there are no notifications.
CHECK_SECONDS = 1.0
STUCK_SECONDS = 60.0
ROWS_AT_ONCE = 500


class Sign(Enum):
    """The signs that a stream gives besides changes: the list is complete; the stream still stands; a token was
    revoked, which may be the reader's.
    """

    LOADED = "loaded"
    QUIET = "quiet"
    REVOKED = "revoked"


@dataclass(frozen=True)
class EntryChange:
    """An entry as it is now. `change` grows from one change of the list to the next."""

    id: int
    source: str
    bookmark: str
    why: str
    is_listed: bool
    is_fatal: bool
    change: int


_COLUMNS = "SELECT id, source, bookmark, why, is_listed, is_fatal, change FROM poison_entry"
_LISTED = f"{_COLUMNS} WHERE source = %s AND is_listed AND id > %s ORDER BY id LIMIT {ROWS_AT_ONCE}"
_CHANGED = f"{_COLUMNS} WHERE source = %s AND change > %s AND change > 0 ORDER BY change LIMIT {ROWS_AT_ONCE}"
_NEWEST = "SELECT coalesce(max(change), 0) FROM poison_entry WHERE source = %s AND change > 0"
_NEWEST_SINCE = "SELECT max(change) FROM poison_entry WHERE source = ANY(%s) AND change > %s AND change > 0"


class Listener:
    """One stream: its source, the event that wakes it, and since when it has been waiting for its reader."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.is_woken = asyncio.Event()
        self.is_in_doubt = False
        self.task = asyncio.current_task()
        self.handed_over_at: float | None = None

    def is_stuck(self, now: float) -> bool:
        """Return whether its reader has taken nothing for a minute although there was something."""
        return self.handed_over_at is not None and now - self.handed_over_at > STUCK_SECONDS


class Session:
    """The two connections and those who listen; it lives from the first listener to the last, or to its first fault."""

    def __init__(
        self, listening: psycopg.AsyncConnection[Any], reading: psycopg.AsyncConnection[Any], check_seconds: float
    ) -> None:
        self._listening = listening
        self._reading = reading
        self._check_seconds = check_seconds
        self._listeners: set[Listener] = set()
        self.is_over = False
        self._waiting = asyncio.create_task(self._wait_for_notifications())

    @classmethod
    async def open(cls) -> "Session":
        """Connect; raise psycopg.OperationalError or DatabaseError."""
        is_notified = await sync_to_async(has_sessions, thread_sensitive=False)()
        listening = await _connect()
        if is_notified:
            await listening.execute(f"LISTEN {POISON_LIST_CHANNEL}")
        return cls(listening, await _connect(), KEEP_ALIVE_SECONDS if is_notified else CHECK_SECONDS)

    def join(self, source: str) -> Listener:
        """Return a new listener, woken by every change from now on."""
        listener = Listener(source)
        self._listeners.add(listener)
        return listener

    async def leave(self, listener: Listener) -> None:
        """Forget the listener; the last one closes the connections."""
        self._listeners.discard(listener)
        if not self._listeners:
            self.end()
            self._waiting.cancel()
            for one in (self._listening, self._reading):
                with contextlib.suppress(psycopg.Error):
                    await one.close()

    def end(self) -> None:
        """End every stream."""
        self.is_over = True
        self._wake()

    async def listed(self, source: str, after: int) -> list[EntryChange]:
        """Return the next entries that are listed, by their ids."""
        return await self._read(_LISTED, source, after)

    async def changed(self, source: str, since: int) -> list[EntryChange]:
        """Return the next entries that were listed or released since, by their change numbers."""
        return await self._read(_CHANGED, source, since)

    async def newest(self, source: str) -> int:
        """Return the number of the source's last change; 0: there was none."""
        found = await (await self._reading.execute(_NEWEST, [source])).fetchone()
        return int(found[0]) if found else 0

    async def _read(self, query: str, source: str, number: int) -> list[EntryChange]:
        async with self._reading.cursor(row_factory=class_row(EntryChange)) as cursor:
            await cursor.execute(query, [source, number])
            return await cursor.fetchall()

    async def _wait_for_notifications(self) -> None:
        seen = 0
        try:
            while not self.is_over:
                async for notification in self._listening.notifies(timeout=self._check_seconds):
                    self._wake(is_in_doubt=notification.payload == REVOKED)
                # A database that is gone without a word is noticed too.
                if newest := await asyncio.wait_for(self._newest_since(seen), KEEP_ALIVE_SECONDS):
                    seen = newest
                    self._wake()
                self._give_up_the_stuck()
        except (psycopg.Error, TimeoutError):
            pass
        finally:
            self.end()

    async def _newest_since(self, change: int) -> int | None:
        """Return the number of the last change of all sources since, None where there was none."""
        sources = [listener.source for listener in self._listeners]
        found = await (await self._listening.execute(_NEWEST_SINCE, [sources, change])).fetchone()
        return found[0] if found else None

    def _wake(self, *, is_in_doubt: bool = False) -> None:
        for listener in self._listeners:
            listener.is_in_doubt |= is_in_doubt
            listener.is_woken.set()

    def _give_up_the_stuck(self) -> None:
        now = time.monotonic()
        for listener in self._listeners:
            if listener.is_stuck(now) and listener.task is not None:
                listener.task.cancel()


class Feed:
    """The streams of this process; there is one session at a time."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._opening = asyncio.Lock()

    def end(self) -> None:
        """End every stream: the process is about to stop."""
        if self._session is not None:
            self._session.end()

    async def follow(self, source: str) -> AsyncGenerator[list[EntryChange] | Sign]:
        """Yield what is listed, then LOADED, then what changes, QUIET from time to time; end when the session ends."""
        session, listener = await self._join(source)
        try:
            async for one in _followed(session, listener, source):
                listener.handed_over_at = time.monotonic()
                yield one
                listener.handed_over_at = None
        except psycopg.Error:
            session.end()
        finally:
            await session.leave(listener)

    async def _join(self, source: str) -> tuple[Session, Listener]:
        async with self._opening:
            if self._session is None or self._session.is_over:
                self._session = await Session.open()
            return self._session, self._session.join(source)


async def _followed(session: Session, listener: Listener, source: str) -> AsyncIterator[list[EntryChange] | Sign]:
    # What changes while the list is read is read once more as a change: the number was taken before.
    since, after = await session.newest(source), 0
    while entries := await session.listed(source, after):
        yield entries
        after = entries[-1].id
    listener.is_woken.set()
    is_loaded = False
    quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS
    while not session.is_over:
        if not listener.is_woken.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(listener.is_woken.wait(), quiet_until - time.monotonic())
        if time.monotonic() >= quiet_until:
            yield Sign.QUIET
            quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS
        if not listener.is_woken.is_set():
            continue
        listener.is_woken.clear()
        if listener.is_in_doubt:
            listener.is_in_doubt = False
            yield Sign.REVOKED
        while not session.is_over and (entries := await session.changed(source, since)):
            yield entries
            since = entries[-1].change
        if not is_loaded:
            yield Sign.LOADED
            is_loaded = True


async def _connect() -> psycopg.AsyncConnection[Any]:
    given = connection.get_connection_params()
    # These are Django's own, and not for asynchronous connections.
    parameters = {name: value for name, value in given.items() if name not in {"cursor_factory", "context"}}
    parameters["application_name"] = NAME
    return await psycopg.AsyncConnection.connect(autocommit=True, connect_timeout=5, **parameters)
