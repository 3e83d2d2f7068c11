"""Payloads that policies keep no longer are removed, from the database and from the archive's files.

Only final messages lose theirs, and the rest of them stays. A row says so before anybody could deliver the message:
the row of the message is locked meanwhile, and whatever brings it back waits for that.
"""

import json
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.archive.commands import rewriting
from poisonadmin.archive.commands.holds import note_held
from poisonadmin.archive.commands.rewriting import FileStore
from poisonadmin.archive.domain.pieces import Rewrite
from poisonadmin.core.commands import locks
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_of
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.runs.commands.engine import RunTurn
from poisonadmin.runs.queries.runs import StoredRun
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import archived_where
from poisonadmin.store.models.archive import LegalHold

WINDOW_MESSAGES = 25_000
_KEPT = partial(
    Sql,
    """jsonb_to_recordset({cutoffs}::jsonb)
    AS kept (address_id bigint, payload timestamptz, payload_days int, payload_policy text)""",
)
_LIVE = partial(
    Sql,
    """FROM message AS m JOIN {kept} ON kept.address_id = m.address_id
    WHERE m.id > {after} AND m.id <= {until} AND m.state IN ('DLVD', 'FAIL') AND m.state_at <= kept.payload
      AND NOT EXISTS (SELECT FROM held_message AS held WHERE held.message_id = m.id)
      AND NOT EXISTS (SELECT FROM removed_payload AS gone WHERE gone.message_id = m.id)""",
)
_ARCHIVED = partial(
    Sql,
    """FROM archived_message AS r JOIN {kept} ON kept.address_id = r.address_id
    WHERE r.id > {after} AND r.id <= {until} AND r.state_at <= kept.payload AND {may_go}
      AND NOT EXISTS (SELECT FROM removed_payload AS gone WHERE gone.message_id = r.id)""",
)
# What somebody else changes before the lock is there is asked once more by the database.
_REMOVE_LIVE = partial(
    Sql,
    """WITH due AS (SELECT m.id, kept.payload_days, kept.payload_policy {due} ORDER BY m.id FOR UPDATE OF m),
    noted AS (
        INSERT INTO removed_payload (message_id, kept_days, policy) SELECT id, payload_days, payload_policy FROM due
        RETURNING message_id
    )
    UPDATE body SET payload = '' FROM noted WHERE body.id = noted.message_id RETURNING body.id""",
)
_NOTE = """
INSERT INTO removed_payload (message_id, kept_days, policy)
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::text[])
"""
_BY_NAME = partial(
    Sql,
    """SELECT address.name, sum(one.n)::bigint FROM (SELECT {on} AS id, count(*) AS n {due} GROUP BY 1) AS one
    JOIN address USING (id) GROUP BY 1""",
)
_WINDOW = """
SELECT max(id) FROM (SELECT id FROM archived_message WHERE id > %s ORDER BY id LIMIT %s) AS one
"""
# A patch is of an operation about one message alone.
_FORGET_PATCHES = """
UPDATE operation AS o SET params = params - %(names)s::text[]
WHERE action = 'patch' AND params ?| %(names)s::text[] AND (
    EXISTS (SELECT FROM operation_result AS r WHERE r.operation_id = o.id AND r.message_id = ANY(%(ids)s))
    OR EXISTS (SELECT FROM archived_result AS r WHERE r.operation_id = o.id AND r.message_ids && %(ids)s::bigint[])
    OR EXISTS (SELECT FROM payload_version AS v WHERE v.operation_id = o.id AND v.message_id = ANY(%(ids)s)))
"""
Due = tuple[int, int, int, str]  # piece, message, days, policy


def removes_payloads(run: StoredRun) -> bool:
    """Return whether some policy keeps payloads for a time only."""
    return any(one.get("payload") is not None for one in run.params["cutoffs"])


def remove_live(turn: RunTurn, messages: IdRange) -> None:
    """Remove the payloads of live messages, and note how far the run is."""
    retried(partial(_remove_live, turn, turn.run, messages))


def _remove_live(turn: RunTurn, run: StoredRun, messages: IdRange) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        _nobody_holds_more(cursor)
        note_held(messages.after, messages.until)
        cursor.execute(*_REMOVE_LIVE(due=_due_live(run, messages)))
        ids = [row[0] for row in cursor.fetchall()]
        if ids:
            cursor.execute("SELECT empty_former_payloads(%s)", [ids])
            forget_patches(cursor, ids, "payload")
        _note_progress(turn, run, len(ids), live_payloads=messages.until)


def remove_archived(turn: RunTurn, store: FileStore) -> bool:
    """Remove the payloads of archived messages, a window of them at most; return False when somebody reads the tables.

    The run's position is behind the window when nothing of it is left.
    """
    window = next_window(turn.run)
    if window is None:
        return True
    while due := _due_archived(turn.run, window):
        for piece_id, group in groupby(due, key=lambda one: one[0]):
            if turn.must_pause():
                return True
            if not _remove_of_piece(turn, store, piece_id, list(group), window):
                return False
    _note_progress(turn, turn.run, 0, archived_payloads=window.until)
    return True


def next_window(run: StoredRun) -> IdRange | None:
    """Return the next archived messages to be looked at; None when there are no more."""
    after = run.position.get("archived_payloads", 0)
    last = fetch_values(_WINDOW, [after, WINDOW_MESSAGES])[0]
    return None if last is None else IdRange(after, last)


def count_live(run: StoredRun, messages: IdRange) -> dict[str, int]:
    """Return how many live messages would lose their payloads, by address. Call `note_held` first."""
    return dict(fetch_rows(_BY_NAME(on=Sql("m.address_id"), due=_due_live(run, messages))))


def count_archived(run: StoredRun, messages: IdRange) -> dict[str, int]:
    """Return how many archived messages would lose their payloads, by address."""
    return dict(fetch_rows(_BY_NAME(on=Sql("r.address_id"), due=_archived(run, messages))))


def _remove_of_piece(turn: RunTurn, store: FileStore, piece_id: int, due: Sequence[Due], window: IdRange) -> bool:
    """Write the files of a piece without these payloads; nothing happens where anything has changed meanwhile."""
    ids = [one[1] for one in due]
    replaced = rewriting.written_anew(store, piece_id, Rewrite(emptied=ids), tables=("messages", "extras"))
    with transaction.atomic(), connection.cursor() as cursor:
        is_alone = locks.try_lock(cursor, Lock.TABLES)
        if is_alone:
            _nobody_holds_more(cursor)
        is_same = is_alone and [one for one in _due_archived(turn.run, window) if one[0] == piece_id] == list(due)
        if is_same:
            rewriting.put_in_place(replaced)
            forget_patches(cursor, ids, "payload")
            cursor.execute(_NOTE, [ids, [one[2] for one in due], [one[3] for one in due]])
            _note_progress(turn, turn.run, len(ids))
    if is_same:
        rewriting.tidy(store, piece_id)
    else:
        rewriting.remove_former(store)
    return is_alone


def _due_archived(run: StoredRun, window: IdRange) -> list[Due]:
    due = Sql(
        "SELECT r.piece_id, r.id, kept.payload_days, kept.payload_policy {due} ORDER BY 1, 2",
        due=_archived(run, window),
    )
    return [(piece, message, days, policy) for piece, message, days, policy in fetch_rows(due)]


def _due_live(run: StoredRun, messages: IdRange) -> Sql:
    return _LIVE(kept=_KEPT(cutoffs=json.dumps(run.params["cutoffs"])), after=messages.after, until=messages.until)


def _archived(run: StoredRun, messages: IdRange) -> Sql:
    holds = LegalHold.objects.filter(lifted_at=None).order_by("id")
    return _ARCHIVED(
        kept=_KEPT(cutoffs=json.dumps(run.params["cutoffs"])),
        after=messages.after,
        until=messages.until,
        may_go=all_of(archived_where(parse_filter(one.filter), SYSTEM, is_wide=True).negated for one in holds),
    )


def _nobody_holds_more(cursor: CursorWrapper) -> None:
    """Let nobody begin to hold anything until the transaction ends."""
    cursor.execute("LOCK TABLE legal_hold IN SHARE MODE")


def _note_progress(turn: RunTurn, run: StoredRun, removed: int, **reached: int) -> None:
    result = {"payloads": (run.result or {}).get("payloads", 0) + removed}
    turn.store(position={**run.position, **reached}, result=result)


def forget_patches(cursor: CursorWrapper, ids: Sequence[int], *names: str) -> None:
    """Remove these parameters from the operations that have patched one of the messages.

    Call it before the former versions of the messages go; where they have gone, the operations' results tell.
    """
    cursor.execute(_FORGET_PATCHES, {"ids": list(ids), "names": list(names)})
