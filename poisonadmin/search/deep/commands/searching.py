"""Searches are carried out, by whoever can read everything (Spark), a wave at a time, the newest messages first.

How far a search is stands in its row, so one that is cut off goes on where it was. Each account's searches have their
turn, one after the other.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.commands.locks import shared
from poisonadmin.core.domain.access import Permission, Principal, Role
from poisonadmin.core.domain.errors import PoisonAdminError, error_text
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.queries.id_ranges import last_ranges
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.commands.job_work import job_of
from poisonadmin.runs.commands.worker_runs import RunHeartbeat
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.deep.commands.requests import KEPT_HOURS
from poisonadmin.search.deep.domain.scan import Hit, Wave
from poisonadmin.search.deep.domain.states import SearchState
from poisonadmin.search.deep.queries.terms import archived_where, clauses_of, plain_of
from poisonadmin.search.domain.filters import MessageFilter, parse_filter
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.store.models.search import Search

Find = Callable[[Wave], Sequence[Hit]]
"""Returns what a wave finds, in any order. Passed in: what reads (workers) imports this package."""

MAX_HITS = 100_000
# The first wave is small, for the first hits, and still likely to have one; then as many messages as take about
# `WAVE_SECONDS`.
FIRST_MESSAGES = 40_000
MOST_MESSAGES_A_TASK = 250_000
TASKS = 2
WAVE_SECONDS = 2.0
# So few are read by their ids, where they are fewer than one in so many.
FEW, ONE_IN = 10_000, 8
TURN_SECONDS = 3.0
PHASE = "reading payloads and headers"

# The accounts take turns, each with the oldest of its searches.
_NEXT = """
SELECT min(search.id) FROM search WHERE state = 'running' GROUP BY requester
ORDER BY (SELECT max(turn_at) FROM search former WHERE former.requester = search.requester) NULLS FIRST, 1 LIMIT 1
"""
_TURN = """
UPDATE search SET turn_at = now(), total = CASE WHEN total > 0 THEN total ELSE
    (SELECT coalesce(max(id), 0) - coalesce(min(id), 0) FROM message)
    + (SELECT coalesce(sum(rows), 0) FROM archive_file WHERE is_current AND table_name = 'messages') END
WHERE id = %s AND state = 'running'
"""
_FILES = """
SELECT id, path, rows FROM archive_file WHERE is_current AND table_name = 'messages' AND id > %s ORDER BY id LIMIT %s
"""
_NEWEST_FILE = "SELECT max(id) FROM archive_file WHERE is_current AND table_name = 'messages'"
_HITS = """
INSERT INTO search_hit (search_id, message_id, archived)
SELECT %s, * FROM unnest(%s::bigint[], %s::jsonb[])
ON CONFLICT (search_id, message_id) DO UPDATE SET archived = excluded.archived
WHERE search_hit.archived IS DISTINCT FROM excluded.archived
"""
_SUMS = "SELECT count(*), count(archived) FROM search_hit WHERE search_id = %s"
_COMPLETE = """
UPDATE search SET state = 'completed', selection_id = %s, ended_at = now(), expires_at = now() + %s * interval '1 h'
WHERE id = %s AND state = 'running' RETURNING id
"""
_END = "UPDATE search SET state = 'failed', error = %s, ended_at = now() WHERE id = %s AND state = 'running'"


class SearchRefused(PoisonAdminError):
    """Raised when the account that asked for a search may not make it any more."""

    code = "search_refused"
    status = 403


@dataclass(frozen=True)
class Searching:
    """The tools of searches. `in_archive`: returns where a file of the archive is. `tasks`: returns how
    many tasks read a wave."""

    find: Find
    in_archive: Callable[[str], str]
    worker: str
    heartbeat: RunHeartbeat | None = None
    is_stopping: Callable[[], bool] = lambda: False
    tasks: Callable[[], int] = lambda: TASKS
    # By search: how many messages its next wave reads, and its job, which is kept alive between its turns.
    messages: dict[int, int] = field(default_factory=dict)
    jobs: dict[int, int] = field(default_factory=dict)

    def hold(self, search_id: int, job_id: int) -> None:
        """Keep the search's job alive."""
        self.jobs[search_id] = job_id
        if self.heartbeat:
            self.heartbeat.hold(job_id)

    def release(self, search_id: int) -> None:
        """Let go of the job of a search that is over."""
        job_id = self.jobs.pop(search_id, None)
        if self.heartbeat and job_id is not None:
            self.heartbeat.release(job_id)

    def wave_of(self, search_id: int) -> int:
        """Return how many messages the search's next wave reads."""
        return self.messages.get(search_id, FIRST_MESSAGES)

    def took(self, search_id: int, seconds: float) -> None:
        """Let the next wave take about `WAVE_SECONDS`, after one that took so long."""
        factor = min(max(WAVE_SECONDS / seconds, 0.5), 4)
        messages = int(self.wave_of(search_id) * factor)
        tasks = self.tasks()
        self.messages[search_id] = max(min(messages, MOST_MESSAGES_A_TASK * tasks), tasks)


def is_any_due() -> bool:
    """Return whether a search is asked for: one query, for who looks often."""
    return bool(fetch_values(_NEXT))


def search_due(searching: Searching) -> None:
    """Carry out the searches that are asked for, in turns, until there is none. Call under
    `single_flight(Tick.SEARCH)`."""
    try:
        while not searching.is_stopping() and (found := fetch_values(_NEXT)):
            _turn(found[0], searching)
    finally:
        for search_id in list(searching.jobs):
            searching.release(search_id)


def _turn(search_id: int, searching: Searching) -> None:
    until = time.monotonic() + TURN_SECONDS
    _changed(_TURN, [search_id])
    search = Search.objects.get(id=search_id)
    job_id = job_of(search, KindName.SEARCH, worker=searching.worker, params={"search_id": search.id}, phase=PHASE)
    searching.hold(search_id, job_id)
    try:
        asked = _Asked(search)
        is_first = True
        while search.state == SearchState.RUNNING and (is_first or time.monotonic() < until):
            if searching.is_stopping():
                return
            is_first, began = False, time.monotonic()
            with shared(Lock.TABLES) as may_read:
                if not may_read:  # rows move to the archive just now
                    return
                is_over = _wave(search, asked, searching)
            searching.took(search_id, time.monotonic() - began)
            worker_runs.move(job_id, phase=PHASE, done=search.read, total=search.total)
            if is_over:
                _complete(search, asked.principal, job_id)
            search.refresh_from_db()
    except Exception as error:
        if searching.is_stopping():  # the error is the stop's doing
            return
        connection.close_if_unusable_or_obsolete()
        _fail(search_id, job_id, error_text(error))
        searching.release(search_id)
        if not isinstance(error, PoisonAdminError):
            raise
        return
    if search.state != SearchState.RUNNING:
        worker_runs.cancel(job_id, counts={"hits": search.hits})  # where it has not succeeded
        searching.release(search_id)


class _Asked:
    """The parameters and the account of a search."""

    def __init__(self, search: Search) -> None:
        self.principal = _principal_of(search)
        self.filter = parse_filter(search.filter)
        self.clauses = clauses_of(self.filter)

    @property
    def plain(self) -> MessageFilter | None:
        """The filter for the database; None where any message will do."""
        plain = plain_of(self.filter)
        return plain if plain.terms or not self.principal.sees_everything else None


def _principal_of(search: Search) -> Principal:
    """Return who asked, within what he was limited to then and is limited to now. Raise SearchRefused."""
    patterns = tuple(tuple(some) for some in search.patterns)
    permissions = frozenset({Permission.READ, Permission.READ_PAYLOAD})
    if search.requester.startswith("user "):
        now = principal_of_account(search.requester)
        if now is None or not now.may(Permission.READ_PAYLOAD if search.reads_payloads else Permission.READ):
            raise SearchRefused(f"{search.requested_by} may not do this any more.")
        patterns += now.patterns
    return Principal(search.requested_by, Role.VIEWER, permissions, patterns, user=search.requester)


def _wave(search: Search, asked: _Asked, searching: Searching) -> bool:
    """Read some more; return whether that was all."""
    messages = searching.wave_of(search.id)
    if search.live_above > 0:
        return _live_wave(search, asked, searching, messages)
    return _archive_wave(search, asked, searching, messages)


def _live_wave(search: Search, asked: _Asked, searching: Searching, messages: int) -> bool:
    find, tasks = searching.find, searching.tasks()
    ranges = last_ranges(search.live_above, messages=-(-messages // tasks), most=tasks)
    after = ranges[-1].after
    read = search.live_above - after
    wanted: list[int] | None = None
    if asked.plain is not None:
        wanted = fetch_values(
            Sql(
                "SELECT m.id FROM message m WHERE m.id > {after} AND m.id <= {until} AND {where} ORDER BY m.id",
                after=after,
                until=search.live_above,
                where=compile_filter(asked.plain, asked.principal).whole,
            )
        )
    hits: Sequence[Hit] = ()
    if wanted is None:
        hits = find(Wave(asked.clauses, ranges))
    elif wanted and len(wanted) <= FEW and len(wanted) * ONE_IN < messages:
        hits = find(Wave(asked.clauses, ids=wanted))
    elif wanted:
        known = set(wanted)
        hits = [hit for hit in find(Wave(asked.clauses, ranges)) if hit.id in known]
    return _store(search, hits, read=read, live_above=after)


def _archive_wave(search: Search, asked: _Asked, searching: Searching, messages: int) -> bool:
    """Read some files. What is archived meanwhile is in newer files, which are read when the others have been."""
    newest = fetch_values(_NEWEST_FILE)[0]
    if newest is None or newest <= search.file_above:
        return True
    where, outside = archived_where(asked.filter, asked.principal, search.requested_at)
    if outside:
        Search.objects.filter(id=search.id).update(outside_archive=outside)
        return True
    files: list[tuple[int, str]] = []
    count = 0
    for file_id, path, file_rows in fetch_rows(_FILES, [search.file_above, 100]):
        if files and count + file_rows > messages:
            break
        files.append((file_id, searching.in_archive(path)))
        count += file_rows
    hits = searching.find(Wave(asked.clauses, files=[path for _, path in files], where=where))
    return _store(search, hits, read=count, file_above=files[-1][0])


def _store(search: Search, hits: Sequence[Hit], *, read: int, **place: int) -> bool:
    """Write down what a wave has found and where the search is; return whether it has found as much as it may."""
    newest_first = sorted(hits, key=lambda hit: -hit.id)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT state FROM search WHERE id = %s FOR UPDATE", [search.id])
        row = cursor.fetchone()
        if row is None or row[0] != SearchState.RUNNING:
            return False
        kept = newest_first[: max(MAX_HITS - search.hits, 0)]
        cursor.execute(_HITS, [search.id, [hit.id for hit in kept], [_archived(hit) for hit in kept]])
        cursor.execute(_SUMS, [search.id])
        search.hits, search.archived_hits = cursor.fetchone()
        search.read += read
        search.is_capped = len(kept) < len(newest_first)
        for name, value in place.items():
            setattr(search, name, value)
        names = ["hits", "archived_hits", "read", "is_capped", *place]
        Search.objects.filter(id=search.id).update(**{name: getattr(search, name) for name in names})
        if kept:
            cursor.execute("UPDATE search SET first_hit_at = coalesce(first_hit_at, now()) WHERE id = %s", [search.id])
    return search.is_capped


def _archived(hit: Hit) -> str | None:
    if hit.received_at is None:
        return None
    return json.dumps({name: value for name, value in asdict(hit).items() if name != "id"}, default=str)


def _complete(search: Search, principal: Principal, job_id: int) -> None:
    """Freeze what was found, and end the search."""
    with transaction.atomic():
        selection_id = None
        if search.hits > search.archived_hits:
            found = Sql(
                "m.id IN (SELECT message_id FROM search_hit WHERE search_id = {id} AND archived IS NULL)", id=search.id
            )
            selection_id = freeze(narrowed=found, reads_payloads=search.reads_payloads, principal=principal)
        if _changed(_COMPLETE, [selection_id, KEPT_HOURS, search.id]):
            worker_runs.succeed(job_id, counts={"read": search.read, "hits": search.hits}, done=search.read)
        else:  # it was cancelled meanwhile
            transaction.set_rollback(True)


def _fail(search_id: int, job_id: int, error: str) -> None:
    _changed(_END, [error[:4000], search_id])
    worker_runs.fail(job_id, error=error)


def _changed(sql: str, parameters: Sequence[Any]) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return bool(cursor.rowcount)
