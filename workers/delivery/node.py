"""The database's side of a node: its fence, its heartbeat, the outcomes it writes, and the file of what it begins.

One thread with one connection does all three, so that a task which delivers never waits for the database. What cannot
be written while the database is away is kept and written when it is back.
"""

import collections
import contextlib
import json
import logging
import operator
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg import sql

from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.delivery.domain.lease import HEARTBEAT_SECONDS, LEASE_MARGIN_SECONDS, LEASE_SECONDS
from poisonadmin.messages.domain.attempt import ATTEMPT_COLUMNS, AttemptRecord
from workers.delivery.begun import BegunFile
from workers.delivery.handler.journals import journal_directory, remove_journals
from workers.delivery.sessions import Session, Sessions

FLUSH_SECONDS = 0.1
# How often a node says that it sees a version of a consumer; and of how many, since strangers name them.
SEEN_SECONDS = 10.0
MAX_SEEN = 100

_COLUMNS = tuple(column.name for column in ATTEMPT_COLUMNS)
_values = operator.attrgetter(*_COLUMNS)
_COPY = f"COPY attempt ({', '.join(_COLUMNS)}) FROM STDIN WITH (FORMAT binary)"
_TYPES = tuple(column.type for column in ATTEMPT_COLUMNS)
_ENTER = """
INSERT INTO node (name, host, pid, claim_id, shard, journals, lease_until)
VALUES (%s, %s, %s, %s, %s, %s, now() + %s * interval '1 s') ON CONFLICT (claim_id, shard) DO NOTHING
RETURNING id, started_at
"""
_IS_KNOWN = "SELECT 1 FROM node WHERE id = %s AND started_at = %s"
_BEAT = """
UPDATE node SET heartbeat_at = now(), lease_until = now() + %s * interval '1 s'
WHERE id = %s AND ended_at IS NULL RETURNING (SELECT is_stopping FROM claim WHERE claim.id = node.claim_id)
"""
_END = """
UPDATE node SET ended_at = now(), "end" = 'clean', begun = %s, unanswered = %s, tallies = %s
WHERE id = %s AND ended_at IS NULL
"""
# In one order, so that two nodes never wait for each other.
_SEE = """
INSERT INTO seen_version AS known (seen_in, consumer, version)
SELECT 'answer', name, stated.version
FROM unnest(%s::bigint[], %s::text[]) AS stated (destination_id, version)
     JOIN destination ON destination.id = destination_id ORDER BY 2, 3
ON CONFLICT (seen_in, consumer, version) DO UPDATE SET last_at = now()
WHERE known.last_at < now() - interval '10 s'
"""
_UNLOCK = "SELECT pg_advisory_unlock(%s, %s)"
_UNDER_WAY = "UPDATE node SET under_way = %s WHERE id = %s"
_RELEASE = "UPDATE node SET released = released || %s::bigint[], waits = %s WHERE id = %s AND ended_at IS NULL"
_INSERT = (
    sql.SQL("INSERT INTO attempt ({names}) VALUES ({values}) ON CONFLICT DO NOTHING")
    .format(names=sql.SQL(", ".join(_COLUMNS)), values=sql.SQL(", ").join([sql.Placeholder()] * len(_COLUMNS)))
    .as_string()
)

log = logging.getLogger(__name__)


class NodeSession:
    """The right to deliver one shard of a claim, from `enter` to `end`. `started_at` is that of its row.

    A promoted standby that was behind may not know the node, and give its id and those of its messages again: there it
    writes nothing.
    """

    def __init__(
        self, sessions: Sessions, node_id: int, begun: BegunFile, budget: float, *, started_at: object
    ) -> None:
        self.begun = begun
        self._sessions = sessions
        self._connection = sessions.node()
        self._id = node_id
        self._started_at = started_at
        self._is_unknown = False
        self._outcomes: collections.deque[AttemptRecord] = collections.deque()
        self._written = 0
        self._under_way: Callable[[], Mapping[int, int] | None] = lambda: None
        self._known_under_way: Mapping[int, int] | None = None
        self._released: collections.deque[tuple[list[int] | None, bool]] = collections.deque()
        self._stop_thread = threading.Event()
        # Destination and version -> when it was written that the version is alive.
        self._seen: dict[tuple[int, str], float] = {}
        self._budget_until = time.monotonic() + budget
        self._lease_until = time.monotonic() + LEASE_SECONDS - LEASE_MARGIN_SECONDS
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"node-{node_id}", daemon=True)
        self._thread.start()

    @property
    def id(self) -> int:
        """The id of its row."""
        return self._id

    def written(self) -> int:
        """Return how many of the recorded outcomes need not be kept any more: they are in the database."""
        return self._written

    def lease_deadline(self) -> float:
        """Return the `time.monotonic()` after which no delivery may begin, however much is left to do."""
        return 0.0 if self.stopping.is_set() else self._lease_until

    def start_deadline(self) -> float:
        """Return the `time.monotonic()` after which no delivery may begin; in the past once the node must stop."""
        return 0.0 if self.stopping.is_set() else min(self._budget_until, self._lease_until)

    def report(self, under_way: Callable[[], Mapping[int, int]]) -> None:
        """Have it known from now on what is under way, messages by destination."""
        self._under_way = under_way

    def release(self, message_ids: Sequence[int], *, waits: bool) -> None:
        """Have messages that will not be begun go back, should this node not end soon.

        `waits`: nothing more will be begun at all.
        """
        self._released.append((list(message_ids) or None, waits))

    def record(self, outcome: AttemptRecord) -> None:
        """Have the outcome written soon; never blocks."""
        self._outcomes.append(outcome)

    def end(self, *, begun: int, unanswered: list[int], tallies: Sequence[Mapping[str, object]] = ()) -> bool:
        """Write what is left and, in the same transaction, that this node has ended, and the result of its shard.

        Return False where it was fenced off: its journals are still to be read. The session stays open.
        """
        self._stop_thread.set()
        self._thread.join()
        until = time.monotonic() + LEASE_SECONDS
        while True:
            try:
                has_ended = self._flush(end=[begun, unanswered, json.dumps(list(tallies))])
                if not self._is_unknown:
                    self._connection.execute(_UNLOCK, [Lock.NODE, lock_key(self._id)])
                return has_ended
            except psycopg.Error:
                if time.monotonic() > until:
                    raise
                time.sleep(FLUSH_SECONDS)

    def _run(self) -> None:
        next_beat = 0.0
        while not self._stop_thread.wait(FLUSH_SECONDS):
            try:
                self._connected()
                self._flush()
                if time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + HEARTBEAT_SECONDS
                    self._beat()
            except psycopg.Error as error:  # of any kind, a read-only database too: what is not written is kept
                log.warning("node %s cannot write: %s", self._id, str(error).splitlines()[0])

    def _beat(self) -> None:
        if self._is_unknown:
            return
        sent = time.monotonic()
        row = self._connection.execute(_BEAT, [LEASE_SECONDS, self._id]).fetchone()
        if row is None or row[0]:
            self.stopping.set()
        if row is not None:
            self._lease_until = sent + LEASE_SECONDS - LEASE_MARGIN_SECONDS

    def _flush(self, end: Sequence[object] = ()) -> bool:
        """Write what is new; return whether the node has ended with it."""
        rows = [self._outcomes.popleft() for _ in range(len(self._outcomes))]
        under_way = self._under_way()
        is_news = under_way is not None and under_way != self._known_under_way
        released = [self._released.popleft() for _ in range(len(self._released))]
        has_ended = False
        if not (rows or is_news or released or end):
            return False
        try:
            session = self._connected()
            if self._is_unknown:
                self._written += len(rows)
                return False
            with session.transaction():
                if rows:
                    self._write(rows)
                if is_news:
                    self._connection.execute(_UNDER_WAY, [json.dumps(under_way), self._id])
                for some in released if not end else ():
                    self._connection.execute(_RELEASE, [*some, self._id])
                if end:
                    has_ended = self._connection.execute(_END, [*end, self._id]).rowcount == 1
        except BaseException:
            self._outcomes.extendleft(reversed(rows))
            self._released.extendleft(reversed(released))
            raise
        self._written += len(rows)
        self._known_under_way = under_way
        self._see(rows)
        return has_ended

    def _write(self, rows: list[AttemptRecord]) -> None:
        values = [_values(row) for row in rows]
        try:
            with (
                self._connection.transaction(),
                self._connection.cursor() as cursor,
                cursor.copy(_COPY) as copy,
            ):
                copy.set_types(_TYPES)
                for value in values:
                    copy.write_row(value)
        except psycopg.errors.UniqueViolation:
            # Written before the connection was lost, and the confirmation lost with it.
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(_INSERT, values)

    def _see(self, rows: list[AttemptRecord]) -> None:
        """Write which versions of consumers have answered, each as often as it is news; outcomes never wait for it."""
        now = time.monotonic()
        stated = {
            (row.destination_id, row.consumer_version)
            for row in rows
            if row.consumer_version is not None and row.destination_id is not None
        }
        news = [one for one in stated if now - self._seen.get(one, float("-inf")) > SEEN_SECONDS]
        if not news or len(self._seen) >= MAX_SEEN:
            return
        self._seen |= dict.fromkeys(news, now)
        try:
            self._connection.execute(_SEE, [list(some) for some in zip(*news, strict=True)])
        except psycopg.Error as error:
            log.warning("node %s cannot say which versions answer: %s", self._id, str(error).splitlines()[0])

    def _connected(self) -> Session:
        if self._connection.closed or self._connection.broken:
            session = self._sessions.node()
            if session.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
                session.close()
                raise psycopg.OperationalError("the database is a standby that is not promoted")
            self._is_unknown = session.execute(_IS_KNOWN, [self._id, self._started_at]).fetchone() is None
            if self._is_unknown:
                self.stopping.set()
                log.warning("the database does not know node %s any more: its outcomes are not written", self._id)
            else:
                _lock(session, self._id)
            self._connection = session
        return self._connection


def enter(sessions: Sessions, *, claim_id: int, shard: int, budget_seconds: float) -> NodeSession | None:
    """Become the node of this shard and start its heartbeat; None when another task took it or `recover` fenced it.

    Errors: `OSError` when it could not note what it begins.
    """
    name, directory = f"{platform.node()}/{os.getpid()}", journal_directory()
    values = [name, platform.node(), os.getpid(), claim_id, shard, str(directory), LEASE_SECONDS]
    with sessions.node().transaction():
        row = sessions.node().execute(_ENTER, values).fetchone()
        if row is None:
            return None
        node_id, started_at = int(str(row[0])), row[1]
        # Those of a node with this id that another database knew are of no use to this one.
        remove_journals(node_id)
        # Before its row is there: a node without its file has lost it, and whatever it held may have begun.
        begun = BegunFile(directory, node_id)
    _lock(sessions.node(), node_id)
    return NodeSession(sessions, node_id, begun, budget_seconds, started_at=started_at)


def _lock(connection: Session, node_id: int) -> None:
    with contextlib.suppress(psycopg.errors.LockNotAvailable):
        connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.NODE, lock_key(node_id)])
