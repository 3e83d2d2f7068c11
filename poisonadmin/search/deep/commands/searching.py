"""The work of searches: whoever can read everything (Spark) reads a wave at a time, the newest messages first.

The position of a search is in its run, so one that is cut off goes on where it was. Each account's searches have their
turn, one after the other.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.commands.locks import shared
from poisonadmin.core.domain.access import Permission, Principal, Role
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.masking import clear_of_masks, masks_of
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.queries.id_ranges import last_ranges
from poisonadmin.runs.commands.engine import RunTurn, RunWork
from poisonadmin.runs.queries.runs import StoredRun
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.deep.commands.requests import SEARCH
from poisonadmin.search.deep.domain import Hit, Wave
from poisonadmin.search.deep.queries import NOTHING_FOUND, archived_where, clauses_of, plain_of
from poisonadmin.search.domain.filters import MessageFilter, parse_filter
from poisonadmin.search.queries.live import compile_filter

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

_TOTAL = """
SELECT (SELECT coalesce(max(id), 0) - coalesce(min(id), 0) FROM message)
     + (SELECT coalesce(sum(rows), 0) FROM archive_file WHERE is_current AND table_name = 'messages')::bigint
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
    tasks: Callable[[], int] = lambda: TASKS

    def next_wave(self, messages: int, seconds: float) -> int:
        """Return how many messages to read in about `WAVE_SECONDS`, after so many took so long."""
        factor = min(max(WAVE_SECONDS / seconds, 0.5), 4)
        tasks = self.tasks()
        return max(min(int(messages * factor), MOST_MESSAGES_A_TASK * tasks), tasks)


def work(searching: Searching) -> RunWork:
    """Return the work of searches."""
    return RunWork(SEARCH, partial(_carry_out, searching))


def _carry_out(searching: Searching, turn: RunTurn) -> None:
    asked = _Asked(turn.run)
    if turn.run.total is None:
        turn.report(total=fetch_values(_TOTAL)[0])
    # A wave that ended its worker may have been too large.
    messages = FIRST_MESSAGES if turn.run.tries > 1 else turn.run.position.get("wave", FIRST_MESSAGES)
    is_first = True
    while is_first or not turn.must_pause():
        is_first = False
        with shared(Lock.TABLES) as may_read:
            if not may_read:  # rows move to the archive just now
                return
            began = time.monotonic()
            read = _read(turn.run, asked, searching, messages)
            messages = searching.next_wave(messages, time.monotonic() - began)
            is_over = _store(turn, read, messages)
        if is_over:
            _complete(turn, asked.principal)
            return


class _Asked:
    """The parameters and the account of a search."""

    def __init__(self, run: StoredRun) -> None:
        self.principal = _principal_of(run)
        self.filter = parse_filter(run.params["filter"])
        self.clauses = clauses_of(self.filter)

    @property
    def plain(self) -> MessageFilter | None:
        """The filter for the database; None where any message will do."""
        plain = plain_of(self.filter)
        is_limited = not self.principal.sees_everything or bool(masks_of(self.principal))
        return plain if plain.terms or is_limited else None


def _principal_of(run: StoredRun) -> Principal:
    """Return who asked, within what he was limited to then and is limited to now. Raise SearchRefused."""
    patterns = tuple(tuple(some) for some in run.patterns)
    permissions = frozenset({Permission.READ, Permission.READ_PAYLOAD})
    if run.account.startswith("user "):
        now = principal_of_account(run.account)
        if now is None or not now.may(Permission.READ_PAYLOAD if run.params["reads_payloads"] else Permission.READ):
            raise SearchRefused(f"{run.requested_by} may not do this any more.")
        patterns += now.patterns
    return Principal(run.requested_by, Role.VIEWER, permissions, patterns, user=run.account)


@dataclass(frozen=True)
class _Read:
    """The hits of a wave, which has read `count` ids or rows; `position`: where the search is now, None at its end."""

    hits: Sequence[Hit] = ()
    count: int = 0
    position: dict[str, int] | None = None
    outside_archive: Sequence[str] = ()

    @property
    def is_last(self) -> bool:
        """True when nothing is left to be read."""
        return self.position is None


def _read(run: StoredRun, asked: _Asked, searching: Searching, messages: int) -> _Read:
    live_above = run.position.get("live_above", run.params["newest"])
    if live_above > 0:
        return _live_wave(live_above, asked, searching, messages)
    return _archive_wave(run, asked, searching, messages)


def _live_wave(live_above: int, asked: _Asked, searching: Searching, messages: int) -> _Read:
    find, tasks = searching.find, searching.tasks()
    ranges = last_ranges(live_above, messages=-(-messages // tasks), most=tasks)
    after = ranges[-1].after
    wanted: list[int] | None = None
    if asked.plain is not None:
        wanted = fetch_values(
            Sql(
                """SELECT m.id FROM message m
                WHERE m.id > {after} AND m.id <= {until} AND {clear} AND {where} ORDER BY m.id""",
                after=after,
                until=live_above,
                clear=clear_of_masks(asked.principal),
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
    return _Read(hits, live_above - after, {"live_above": after})


def _archive_wave(run: StoredRun, asked: _Asked, searching: Searching, messages: int) -> _Read:
    """Read some files. What is archived meanwhile is in newer files, which are read when the others have been."""
    file_above = run.position.get("file_above", 0)
    newest = fetch_values(_NEWEST_FILE)[0]
    if newest is None or newest <= file_above:
        return _Read()
    where, outside = archived_where(asked.filter, asked.principal, run.created_at)
    if outside:
        return _Read(outside_archive=outside)
    files: list[tuple[int, str]] = []
    count = 0
    for file_id, path, file_rows in fetch_rows(_FILES, [file_above, 100]):
        if files and count + file_rows > messages:
            break
        files.append((file_id, searching.in_archive(path)))
        count += file_rows
    hits = searching.find(Wave(asked.clauses, files=[path for _, path in files], where=where))
    return _Read(hits, count, {"live_above": 0, "file_above": files[-1][0]})


def _store(turn: RunTurn, read: _Read, wave: int) -> bool:
    """Store the hits of a wave and the position of the search; return whether all is read, or as much found as may be.

    Errors: `TurnEnded`, which takes the wave's hits back.
    """
    run = turn.run
    result: dict[str, Any] = {**NOTHING_FOUND, **(run.result or {})}
    newest_first = sorted(read.hits, key=lambda hit: -hit.id)
    kept = newest_first[: max(MAX_HITS - result["hits"], 0)]
    if read.outside_archive:
        result["outside_archive"] = list(read.outside_archive)
    with transaction.atomic(), connection.cursor() as cursor:
        turn.store(done=min(run.done + read.count, run.total or 0))
        cursor.execute(_HITS, [run.id, [hit.id for hit in kept], [_archived(hit) for hit in kept]])
        cursor.execute(_SUMS, [run.id])
        result["hits"], result["archived_hits"] = cursor.fetchone()
        result["is_capped"] = len(kept) < len(newest_first)
        if kept and result["first_hit_at"] is None:
            result["first_hit_at"] = datetime.now(UTC).isoformat()
        turn.store(position={**run.position, **(read.position or {}), "wave": wave}, result=result)
    return read.is_last or result["is_capped"]


def _archived(hit: Hit) -> str | None:
    if hit.received_at is None:
        return None
    return json.dumps({name: value for name, value in asdict(hit).items() if name != "id"}, default=str)


def _complete(turn: RunTurn, principal: Principal) -> None:
    """Freeze what was found, and end the search."""
    run = turn.run
    result = dict(run.result or NOTHING_FOUND)
    with transaction.atomic():
        if result["hits"] > result["archived_hits"]:
            found = Sql(
                "m.id IN (SELECT message_id FROM search_hit WHERE search_id = {id} AND archived IS NULL)", id=run.id
            )
            result["selection"] = freeze(
                narrowed=found, reads_payloads=run.params["reads_payloads"], principal=principal
            )
        turn.finish(result, done=run.total)
