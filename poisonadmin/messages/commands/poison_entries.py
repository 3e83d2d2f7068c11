"""The statements behind the poison list.

Who changes whether something is listed holds the lock POISON_LIST until the commit, so that `change` numbers become
visible in their order and a subscriber that has seen number n has seen all before it. The lock is taken after messages
and groups and before lanes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands import audit, locks
from poisonadmin.core.domain.locks import POISON_LIST_CHANNEL, Lock
from poisonadmin.core.queries.sql import name, named_sql, raw


class ListingLimits(NamedTuple):
    """The numbers of failures and of crashes that list a bookmark."""

    failures: int
    crashes: int


class CountedReport(NamedTuple):
    """One report to be counted; `message_id`: our id of the message that is stored for it, if any."""

    source: str
    bookmark: str
    why: str
    message_id: int | None


class ChangedEntry(NamedTuple):
    """An entry after a change. `change`: the number of the change that listed or released it last."""

    id: int
    is_listed: bool
    change: int


_REACHED = partial(
    named_sql,
    """(%(listed)s OR CASE WHEN %(fatal)s THEN {crashes} + excluded.crashes >= %(crash_limit)s
                                  ELSE {failures} + excluded.failures >= %(failure_limit)s END)""",
)
_SECOND = _REACHED(crashes=name("entry.crashes"), failures=name("entry.failures"))
_FIRST = raw("(%(listed)s OR CASE WHEN %(fatal)s THEN 1 >= %(crash_limit)s ELSE 1 >= %(failure_limit)s END)")
_NEXT = raw("nextval(pg_get_serial_sequence('poison_entry', 'id'))")

# `change` is drawn from the same sequence as the ids: all that matters is that it grows.
_COUNT = named_sql(
    """
INSERT INTO poison_entry AS entry (source, bookmark, why, is_fatal, failures, crashes, failure_limit, crash_limit,
                                   reported_by, message_id, is_listed, listed_at, change)
SELECT source, bookmark, max(why), %(fatal)s, CASE WHEN %(fatal)s THEN 0 ELSE count(*) END,
       CASE WHEN %(fatal)s THEN count(*) ELSE 0 END, %(failure_limit)s, %(crash_limit)s, %(reported_by)s,
       max(message_id), {first}, CASE WHEN {first} THEN now() END, CASE WHEN {first} THEN {next} ELSE 0 END
FROM unnest(%(sources)s::text[], %(bookmarks)s::text[], %(whys)s::text[], %(messages)s::bigint[])
     AS reported(source, bookmark, why, message_id)
GROUP BY source, bookmark ORDER BY source, bookmark
ON CONFLICT (source, bookmark) DO UPDATE SET
    why = excluded.why, is_fatal = excluded.is_fatal, reported_by = excluded.reported_by, last_at = now(),
    failures = entry.failures + excluded.failures, crashes = entry.crashes + excluded.crashes,
    failure_limit = excluded.failure_limit, crash_limit = excluded.crash_limit,
    message_id = coalesce(excluded.message_id, entry.message_id),
    is_listed = entry.is_listed OR {second},
    listed_at = CASE WHEN entry.is_listed OR NOT {second} THEN entry.listed_at ELSE now() END,
    released_at = CASE WHEN entry.is_listed OR {second} THEN NULL ELSE entry.released_at END,
    released_by = CASE WHEN entry.is_listed OR {second} THEN NULL ELSE entry.released_by END,
    note = CASE WHEN entry.is_listed OR {second} THEN NULL ELSE entry.note END,
    change = CASE WHEN entry.is_listed OR NOT {second} THEN entry.change ELSE {next} END
RETURNING id, is_listed, change
""",
    first=_FIRST,
    second=_SECOND,
    next=_NEXT,
)

_WOULD_LIST = """
SELECT is_listed OR CASE WHEN %(fatal)s THEN crashes + 1 >= %(crash_limit)s ELSE failures + 1 >= %(failure_limit)s END
FROM poison_entry WHERE source = %(source)s AND bookmark = %(bookmark)s
"""

_RELEASE = named_sql(
    """
WITH chosen AS (
    SELECT id, is_listed, failures, crashes FROM poison_entry
    WHERE id = ANY(%(ids)s) AND (is_listed OR failures + crashes > 0)
    ORDER BY id FOR UPDATE
), lifted AS (
    INSERT INTO lifted_exclusion (operation_id, kind, former, at)
    SELECT %(operation)s::bigint, 'poison_entry', to_jsonb(chosen), now()
    FROM chosen WHERE %(operation)s::bigint IS NOT NULL
)
UPDATE poison_entry AS entry SET is_listed = FALSE, failures = 0, crashes = 0, released_at = now(),
    released_by = %(actor)s, note = %(note)s, change = CASE WHEN chosen.is_listed THEN {next} ELSE change END
FROM chosen WHERE entry.id = chosen.id
RETURNING entry.id, entry.source, entry.bookmark, entry.change
""",
    next=_NEXT,
)
# What was counted since is added to what was counted before.
_LIST_AGAIN = named_sql(
    """
UPDATE poison_entry AS entry
SET is_listed = TRUE, failures = entry.failures + former.failures, crashes = entry.crashes + former.crashes,
    released_at = NULL, released_by = NULL, note = NULL,
    change = CASE WHEN entry.is_listed THEN entry.change ELSE {next} END
FROM jsonb_to_recordset(%(former)s::jsonb) AS former (id bigint, failures int, crashes int) WHERE entry.id = former.id
RETURNING entry.id, entry.source, entry.bookmark, entry.change
""",
    next=_NEXT,
)


def would_list(cursor: CursorWrapper, source: str, bookmark: str, *, fatal: bool, limits: ListingLimits) -> bool:
    """Return whether one more report would find the bookmark listed or list it, as things stand."""
    values = {"fatal": fatal, "crash_limit": limits.crashes, "failure_limit": limits.failures}
    cursor.execute(_WOULD_LIST, values | {"source": source, "bookmark": bookmark})
    row = cursor.fetchone()
    return bool(row[0]) if row else (limits.crashes if fatal else limits.failures) <= 1


def count(
    cursor: CursorWrapper,
    reports: Sequence[CountedReport],
    *,
    fatal: bool,
    limits: ListingLimits,
    by: str,
    is_listed: bool = False,
) -> list[ChangedEntry]:
    """Count the reports, and list what reaches its limit; with `is_listed` all of them, whatever they count."""
    locks.hold(cursor, Lock.POISON_LIST)
    cursor.execute(
        str(_COUNT),
        {
            "sources": [one.source for one in reports],
            "bookmarks": [one.bookmark for one in reports],
            "whys": [one.why for one in reports],
            "messages": [one.message_id for one in reports],
            "fatal": fatal,
            "failure_limit": limits.failures,
            "crash_limit": limits.crashes,
            "reported_by": by,
            "listed": is_listed,
        },
    )
    entries = [ChangedEntry(*row) for row in cursor.fetchall()]
    _notify(cursor, entries)
    return entries


def link(cursor: CursorWrapper, entry_id: int, message_id: int | None) -> None:
    """Note which message is stored for the entry."""
    cursor.execute("UPDATE poison_entry SET message_id = %s WHERE id = %s", [message_id, entry_id])


def release(
    cursor: CursorWrapper, ids: Sequence[int], *, actor: str, note: str, operation_id: int | None = None
) -> list[ChangedEntry]:
    """Take the entries off the list and start their counts again at 0; return those that this changed.

    What they were is noted for the operation that has them released.
    """
    values: dict[str, Any] = {"ids": list(ids), "actor": actor, "note": note, "operation": operation_id}
    return _change(cursor, str(_RELEASE), values, "released")


def list_again(cursor: CursorWrapper, former: str, *, actor: str, note: str) -> None:
    """Put entries that were released on the list again. `former`: a JSON array of their ids, failures and crashes."""
    values: dict[str, Any] = {"former": former, "actor": actor, "note": note}
    _change(cursor, str(_LIST_AGAIN), values, "listed_again")


def _change(cursor: CursorWrapper, statement: str, values: Mapping[str, Any], word: str) -> list[ChangedEntry]:
    """Execute a statement that lists or releases entries, and write it into the audit log."""
    locks.hold(cursor, Lock.POISON_LIST)
    cursor.execute(statement, values)
    changed = []
    for entry_id, source, bookmark, change in cursor.fetchall():
        changed.append(ChangedEntry(entry_id, word != "released", change))
        details = {"source": source, "bookmark": bookmark}
        audit.record(
            values["actor"],
            f"poison_entry.{word}",
            "poison_entry",
            str(entry_id),
            note=values["note"],
            details=details,
        )
    _notify(cursor, changed)
    return changed


def _notify(cursor: CursorWrapper, entries: Sequence[ChangedEntry]) -> None:
    """Wake the subscribers when the transaction commits. The newest number will do: they read up to it."""
    if newest := max((entry.change for entry in entries), default=0):
        cursor.execute("SELECT pg_notify(%s, %s)", [POISON_LIST_CHANNEL, str(newest)])


_LISTED_OF_MESSAGES = """
SELECT id, message_id FROM poison_entry WHERE message_id = ANY(%(ids)s) AND is_listed
UNION
SELECT entry.id, message.id
FROM message JOIN envelope USING (id) JOIN address ON address.id = message.address_id
     JOIN poison_entry AS entry ON entry.source = address.name AND entry.is_listed
                               AND entry.bookmark = coalesce(envelope.bookmark, envelope.message_id)
WHERE message.id = ANY(%(ids)s)
"""


def listed_messages(cursor: CursorWrapper, message_ids: Sequence[int]) -> set[int]:
    """Return those of the messages that have a listed bookmark where they are, or a listed entry of their own."""
    cursor.execute(_LISTED_OF_MESSAGES, {"ids": list(message_ids)})
    return {message_id for _, message_id in cursor.fetchall()}


def release_for_messages(
    cursor: CursorWrapper, message_ids: Sequence[int], *, actor: str, note: str, operation_id: int | None
) -> None:
    """Release the listed bookmarks of messages that are being approved, before they leave their address.

    Call with the messages locked, inside the transaction that approves them (R7).
    """
    cursor.execute(_LISTED_OF_MESSAGES, {"ids": list(message_ids)})
    if listed := {entry_id for entry_id, _ in cursor.fetchall()}:
        release(cursor, sorted(listed), actor=actor, note=note, operation_id=operation_id)
