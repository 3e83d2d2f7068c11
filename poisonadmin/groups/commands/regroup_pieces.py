"""Failures get their other fingerprint, and their messages the other group, some messages at a time.

Each piece is one transaction with the counts that it changes, and with the removal of its notes: so whatever is killed,
what is left to do is what is noted.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.commands.transaction_retry import retried
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.groups.domain.failures import HOURS_KEPT_DAYS

MESSAGES_A_PIECE = 2_000

_NEXT = "SELECT DISTINCT message_id FROM regrouped_attempt ORDER BY 1 LIMIT %s"
_LOCK_MESSAGES = "SELECT FROM message WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE"
# In the order in which settles lock them, which lock messages first, too.
_LOCK_GROUPS = """
SELECT FROM failure_group WHERE id IN (
    SELECT unnest(ARRAY[from_group_id, to_group_id]) FROM regroup_move
    WHERE (was, fingerprint) IN (SELECT was, fingerprint FROM regrouped_attempt WHERE message_id = ANY(%(ids)s))
) ORDER BY fingerprint FOR NO KEY UPDATE
"""
# Whose latest failure of its group goes to another group goes along. The latest that the group counts: that of a
# message under way is not settled.
_MOVE_MESSAGES = """
WITH latest AS (
    SELECT DISTINCT ON (message.id) message.id, move.held_by, move.to_group_id
    FROM regrouped_attempt AS noted JOIN regroup_move AS move USING (was, fingerprint)
         JOIN message ON message.id = noted.message_id AND message.group_id = move.held_by
    WHERE noted.message_id = ANY(%(ids)s)
      AND NOT (message.state = 'DLNG' AND message.attempt_number = noted.attempt_number)
      AND NOT EXISTS (
          SELECT FROM attempt AS kept
          WHERE kept.message_id = message.id AND kept.attempt_number > noted.attempt_number
            AND kept.outcome <> 'delivered' AND kept.fingerprint = noted.was
            AND NOT (message.state = 'DLNG' AND message.attempt_number = kept.attempt_number)
            AND NOT EXISTS (
                SELECT FROM regrouped_attempt AS other
                WHERE other.message_id = kept.message_id AND other.attempt_number = kept.attempt_number))
    ORDER BY message.id, noted.attempt_number DESC
), moved AS (
    UPDATE message SET group_id = to_group_id FROM latest WHERE message.id = latest.id AND held_by <> to_group_id
    RETURNING address_id, state, reason, original_address_id, held_by, to_group_id
)
INSERT INTO counter_delta (address_id, state, reason, group_id, original_address_id, delta)
SELECT address_id, state, reason, held_by, original_address_id, -count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
UNION ALL SELECT address_id, state, reason, to_group_id, original_address_id, count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
"""
# A message was at the address that it left next, or is where it is.
_MOVE_ATTEMPTS = """
WITH changed AS (
    UPDATE attempt SET fingerprint = noted.fingerprint, title = noted.title FROM regrouped_attempt AS noted
    WHERE noted.message_id = ANY(%(ids)s) AND attempt.message_id = noted.message_id
      AND attempt.attempt_number = noted.attempt_number AND attempt.fingerprint = noted.was
    RETURNING attempt.message_id, attempt.attempt_number, noted.was, noted.fingerprint, finished_at, consumer_version
)
SELECT from_group_id, to_group_id, finished_at, consumer_version, coalesce(
           (SELECT address.id FROM hop JOIN address ON address.name = hop.from_address
            WHERE hop.message_id = message.id AND hop.at >= finished_at ORDER BY hop.at, hop.id LIMIT 1),
           message.address_id)
FROM changed JOIN regroup_move USING (was, fingerprint) JOIN message ON message.id = changed.message_id
WHERE from_group_id <> to_group_id
  AND NOT (message.state = 'DLNG' AND message.attempt_number = changed.attempt_number)
"""
_FORGET = "DELETE FROM regrouped_attempt WHERE message_id = ANY(%(ids)s)"
_COUNT_GROUPS = """
UPDATE failure_group g SET failures = GREATEST(g.failures + one.failures, 0),
    first_at = LEAST(g.first_at, one.first_at), last_at = GREATEST(g.last_at, one.last_at)
FROM unnest(%(groups)s::bigint[], %(failures)s::bigint[], %(firsts)s::timestamptz[], %(lasts)s::timestamptz[])
     AS one (id, failures, first_at, last_at)
WHERE g.id = one.id
"""
_MAKE_HOURS = f"""
INSERT INTO group_hour (group_id, hour, address_id, failures)
SELECT group_id, hour, address_id, 0
FROM unnest(%(groups)s::bigint[], %(hours)s::timestamptz[], %(addresses)s::bigint[]) AS one (group_id, hour, address_id)
WHERE hour > now() - interval '{HOURS_KEPT_DAYS} days' ON CONFLICT DO NOTHING
"""  # noqa: S608  (a number of ours)
_COUNT_HOURS = """
UPDATE group_hour h SET failures = GREATEST(h.failures + one.failures, 0)
FROM unnest(%(groups)s::bigint[], %(hours)s::timestamptz[], %(addresses)s::bigint[], %(failures)s::bigint[])
     AS one (group_id, hour, address_id, failures)
WHERE (h.group_id, h.hour, h.address_id) = (one.group_id, one.hour, one.address_id)
"""
_MAKE_VERSIONS = """
INSERT INTO group_version (group_id, consumer_version, address_id, first_at, last_at, failures)
SELECT group_id, consumer_version, address_id, first_at, last_at, 0
FROM unnest(%(groups)s::bigint[], %(versions)s::text[], %(addresses)s::bigint[], %(firsts)s::timestamptz[],
            %(lasts)s::timestamptz[]) AS one (group_id, consumer_version, address_id, first_at, last_at)
WHERE first_at IS NOT NULL ON CONFLICT DO NOTHING
"""
_COUNT_VERSIONS = """
UPDATE group_version v SET failures = GREATEST(v.failures + one.failures, 0),
    first_at = LEAST(v.first_at, one.first_at), last_at = GREATEST(v.last_at, one.last_at)
FROM unnest(%(groups)s::bigint[], %(versions)s::text[], %(addresses)s::bigint[], %(failures)s::bigint[],
            %(firsts)s::timestamptz[], %(lasts)s::timestamptz[])
     AS one (group_id, consumer_version, address_id, failures, first_at, last_at)
WHERE (v.group_id, v.consumer_version, v.address_id) = (one.group_id, one.consumer_version, one.address_id)
"""
_NONE_LEFT = (
    "DELETE FROM group_hour WHERE group_id = ANY(%(groups)s) AND failures = 0",
    "DELETE FROM group_version WHERE group_id = ANY(%(groups)s) AND failures = 0",
)
_LEFT_IN = "SELECT id FROM message WHERE group_id = %s ORDER BY id LIMIT %s"
_BRING = """
WITH moved AS (
    UPDATE message SET group_id = %(into)s WHERE id = ANY(%(ids)s) AND group_id = %(from)s
    RETURNING address_id, state, reason, original_address_id
)
INSERT INTO counter_delta (address_id, state, reason, group_id, original_address_id, delta)
SELECT address_id, state, reason, %(from)s, original_address_id, -count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
UNION ALL SELECT address_id, state, reason, %(into)s, original_address_id, count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
"""


class _Moved(NamedTuple):
    """A failure that is counted in another group from now on."""

    from_group: int
    to_group: int
    at: datetime
    version: str | None
    address_id: int


def move_piece() -> int:
    """Move the failures of the next messages; return how many there were."""
    ids = fetch_values(_NEXT, [MESSAGES_A_PIECE])
    return retried(lambda: _move(ids)) if ids else 0


def bring_along(from_group: int, to_group: int) -> bool:
    """Give messages that are left in a dissolved group the one that has its failures; return whether there were any."""
    ids = fetch_values(_LEFT_IN, [from_group, MESSAGES_A_PIECE])
    if ids:
        retried(lambda: _bring(ids, from_group, to_group))
    return bool(ids)


def _bring(ids: list[int], from_group: int, to_group: int) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK_MESSAGES, {"ids": ids})
        cursor.execute(_BRING, {"ids": ids, "from": from_group, "into": to_group})


def _move(ids: list[int]) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        values = {"ids": ids}
        cursor.execute(_LOCK_MESSAGES, values)
        cursor.execute(_LOCK_GROUPS, values)
        cursor.execute(_MOVE_MESSAGES, values)
        cursor.execute(_MOVE_ATTEMPTS, values)
        _count(cursor, [_Moved(*row) for row in cursor.fetchall()])
        cursor.execute(_FORGET, values)
        return int(cursor.rowcount)


class _Sums:
    """How many failures each key loses or gains, and when the first and the last of those that it gains were."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._found: dict[tuple[Any, ...], tuple[int, datetime | None, datetime | None]] = {}

    def add(self, key: tuple[Any, ...], change: int, at: datetime) -> None:
        """Count one that goes or comes."""
        n, first, last = self._found.get(key, (0, None, None))
        if change > 0:
            first, last = min(first or at, at), max(last or at, at)
        self._found[key] = (n + change, first, last)

    def carry_out(self, cursor: CursorWrapper, *statements: str) -> None:
        """Execute statements with the keys, and `failures`, `firsts` and `lasts` by key."""
        values: dict[str, Any] = {name: [key[place] for key in self._found] for place, name in enumerate(self._keys)}
        sums = zip(*self._found.values(), strict=True) if self._found else ([], [], [])
        values |= dict(zip(("failures", "firsts", "lasts"), map(list, sums), strict=True))
        for statement in statements if self._found else ():
            cursor.execute(statement, values)


def _count(cursor: CursorWrapper, moved: Sequence[_Moved]) -> None:
    groups = _Sums(["groups"])
    hours = _Sums(["groups", "hours", "addresses"])
    versions = _Sums(["groups", "versions", "addresses"])
    for one in moved:
        hour = one.at.replace(minute=0, second=0, microsecond=0)
        for group_id, change in ((one.from_group, -1), (one.to_group, 1)):
            groups.add((group_id,), change, one.at)
            hours.add((group_id, hour, one.address_id), change, one.at)
            if one.version is not None:
                versions.add((group_id, one.version, one.address_id), change, one.at)
    hours.carry_out(cursor, _MAKE_HOURS, _COUNT_HOURS)
    versions.carry_out(cursor, _MAKE_VERSIONS, _COUNT_VERSIONS)
    groups.carry_out(cursor, _COUNT_GROUPS, *_NONE_LEFT)
