"""Failures get their other fingerprint, and their messages the other group.

Live ones do so some messages at a time, in one transaction with the counts that it changes. Of archived ones, whose
files stay as they are, those that differ from the other failures of their former fingerprint get aliases.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.commands.locks import retried
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.sql import Sql, name, named_sql
from poisonadmin.groups.domain.failures import HOURS_KEPT_DAYS
from poisonadmin.groups.domain.regroup_plan import RegroupedFailure

MESSAGES_A_PIECE = 2_000

# Of a row `one` with `was` and `fingerprint`: the group where it has been counted, and that where it belongs.
FROM_AND_TO = Sql("""
LEFT JOIN fingerprint_alias AS alias ON alias.former = one.was AND alias.message_id IS NULL
LEFT JOIN failure_group AS source ON source.fingerprint = coalesce(alias.fingerprint, one.was)
LEFT JOIN failure_group AS target ON target.fingerprint = one.fingerprint
""")
COUNTED_IN_GROUPS = Sql("""sides AS (
    SELECT from_group_id AS group_id, -n AS n, NULL AS first_at, NULL AS last_at FROM moved
    WHERE from_group_id <> to_group_id
    UNION ALL SELECT to_group_id, n, finished_at, last_at FROM moved WHERE from_group_id <> to_group_id
), counted AS (
    UPDATE failure_group AS g SET failures = GREATEST(g.failures + one.n, 0),
        first_at = LEAST(g.first_at, one.first_at), last_at = GREATEST(g.last_at, one.last_at)
    FROM (SELECT group_id, sum(n)::bigint AS n, min(first_at) AS first_at, max(last_at) AS last_at
          FROM sides GROUP BY 1) AS one
    WHERE g.id = one.group_id RETURNING g.id
)""")
_NOTED = named_sql(
    """noted AS (
    SELECT one.*, source.id AS from_group_id, target.id AS to_group_id
    FROM unnest(%(messages)s::bigint[], %(numbers)s::int[], %(formers)s::text[], %(was)s::text[],
                %(fingerprints)s::text[], %(titles)s::text[])
         AS one (message_id, attempt_number, former, was, fingerprint, title) {from_and_to}
)""",
    from_and_to=FROM_AND_TO,
)
_LOCK_MESSAGES = "SELECT FROM message WHERE id = ANY(%(messages)s) ORDER BY id FOR UPDATE"
# In the order in which settles lock them, which lock messages first, too.
_LOCK_GROUPS = str(
    named_sql(
        """
WITH {noted}
SELECT FROM failure_group WHERE id IN (SELECT unnest(ARRAY[from_group_id, to_group_id]) FROM noted)
ORDER BY fingerprint FOR NO KEY UPDATE
""",
        noted=_NOTED,
    )
)
# Whose latest failure of its group goes to another group goes along. The latest that the group counts: that of a
# message under way is not settled.
_MOVE_MESSAGES = str(
    named_sql(
        """
WITH {noted}, latest AS (
    SELECT DISTINCT ON (message.id) message.id, message.group_id AS held_by, to_group_id
    FROM noted JOIN message ON message.id = noted.message_id
         JOIN failure_group AS mine ON mine.id = message.group_id
              AND (mine.id = from_group_id OR mine.fingerprint = noted.was)
    WHERE to_group_id IS NOT NULL AND NOT (message.state = 'DLNG' AND message.attempt_number = noted.attempt_number)
    ORDER BY message.id, noted.attempt_number DESC
), moved AS (
    UPDATE message SET group_id = to_group_id FROM latest WHERE message.id = latest.id AND held_by <> to_group_id
    RETURNING address_id, state, reason, original_address_id, held_by, to_group_id
)
INSERT INTO counter_delta (address_id, state, reason, group_id, original_address_id, delta)
SELECT address_id, state, reason, held_by, original_address_id, -count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
UNION ALL SELECT address_id, state, reason, to_group_id, original_address_id, count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
""",
        noted=_NOTED,
    )
)
# A message was at the address that it left next, or is where it is.
_MOVE_ATTEMPTS = str(
    named_sql(
        """
WITH {noted}, changed AS (
    UPDATE attempt SET fingerprint = noted.fingerprint, title = noted.title FROM noted
    WHERE attempt.message_id = noted.message_id AND attempt.attempt_number = noted.attempt_number
      AND attempt.fingerprint = noted.was AND noted.was <> noted.fingerprint
    RETURNING attempt.message_id, attempt.attempt_number, from_group_id, to_group_id, finished_at, consumer_version
), moved AS (
    SELECT from_group_id, to_group_id, 1 AS n, finished_at, finished_at AS last_at, consumer_version, coalesce(
               (SELECT address.id FROM hop JOIN address ON address.name = hop.from_address
                WHERE hop.message_id = message.id AND hop.at >= finished_at ORDER BY hop.at, hop.id LIMIT 1),
               message.address_id) AS address_id
    FROM changed JOIN message ON message.id = changed.message_id
    WHERE NOT (message.state = 'DLNG' AND message.attempt_number = changed.attempt_number)
), {counted_in_groups}, each AS (
    SELECT side.group_id, side.n, finished_at, consumer_version, address_id
    FROM moved CROSS JOIN LATERAL (VALUES (from_group_id, -1), (to_group_id, 1)) AS side (group_id, n)
    WHERE from_group_id <> to_group_id
), hourly AS (
    INSERT INTO group_hour (group_id, hour, address_id, failures)
    SELECT group_id, date_trunc('hour', finished_at), address_id, sum(n) FROM each
    WHERE date_trunc('hour', finished_at) > now() - interval '{hours_kept_days} days' GROUP BY 1, 2, 3
    ON CONFLICT (group_id, hour, address_id) DO UPDATE SET failures = group_hour.failures + excluded.failures
)
INSERT INTO group_version (group_id, consumer_version, address_id, first_at, last_at, failures)
SELECT group_id, consumer_version, address_id, min(finished_at), max(finished_at), sum(n) FROM each
WHERE consumer_version IS NOT NULL GROUP BY 1, 2, 3
ON CONFLICT (group_id, consumer_version, address_id) DO UPDATE SET
    first_at = LEAST(group_version.first_at, excluded.first_at),
    last_at = GREATEST(group_version.last_at, excluded.last_at),
    failures = group_version.failures + excluded.failures
""",
        noted=_NOTED,
        counted_in_groups=COUNTED_IN_GROUPS,
        hours_kept_days=HOURS_KEPT_DAYS,
    )
)
_MOVE = (
    _MOVE_MESSAGES,
    _MOVE_ATTEMPTS,
    *(
        str(
            named_sql(
                """WITH {noted}
                DELETE FROM {table} WHERE group_id IN (SELECT from_group_id FROM noted) AND failures <= 0""",
                noted=_NOTED,
                table=name(table),
            )
        )
        for table in ("group_hour", "group_version")
    ),
)
_LEFT_IN = "SELECT id FROM message WHERE group_id = %s ORDER BY id LIMIT %s"
_BRING = """
WITH moved AS (
    UPDATE message SET group_id = %(into)s WHERE id = ANY(%(messages)s) AND group_id = %(from)s
    RETURNING address_id, state, reason, original_address_id
)
INSERT INTO counter_delta (address_id, state, reason, group_id, original_address_id, delta)
SELECT address_id, state, reason, %(from)s, original_address_id, -count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
UNION ALL SELECT address_id, state, reason, %(into)s, original_address_id, count(*) FROM moved GROUP BY 1, 2, 3, 4, 5
"""
_SINGLE_ALIASES = str(
    named_sql(
        """
WITH {noted}
INSERT INTO fingerprint_alias (former, message_id, attempt_number, fingerprint)
SELECT former, message_id, attempt_number, fingerprint FROM noted
UNION ALL
(SELECT DISTINCT ON (former, message_id) former, message_id, NULL, fingerprint FROM noted
 ORDER BY former, message_id, attempt_number DESC)
ON CONFLICT (former, message_id, attempt_number) DO UPDATE SET fingerprint = excluded.fingerprint
""",
        noted=_NOTED,
    )
)
_INDEX = str(
    named_sql(
        """
WITH {noted}
UPDATE archived_message SET group_id = latest.to_group_id FROM (
    SELECT DISTINCT ON (former, message_id) message_id, from_group_id, to_group_id FROM noted
    ORDER BY former, message_id, attempt_number DESC) AS latest
WHERE archived_message.id = latest.message_id AND archived_message.group_id = latest.from_group_id
""",
        noted=_NOTED,
    )
)


def move_failures(failures: Iterable[RegroupedFailure]) -> Iterator[int]:
    """Move live failures, and yield how many have moved, some messages at a time.

    Of a message that has one that moves, `failures` has all, one behind the other.
    """
    for piece in _pieces(failures):
        retried(partial(_execute, _values(piece), _LOCK_MESSAGES, _LOCK_GROUPS, *_MOVE))
        yield sum(one.was != one.fingerprint for one in piece)


def give_aliases(failures: Iterable[RegroupedFailure]) -> None:
    """Have archived failures, and their messages, seen with fingerprints of their own.

    Of a message that has one that moves, `failures` has all, one behind the other.
    """
    for piece in _pieces(failures):
        _execute(_values(piece), _SINGLE_ALIASES, _INDEX)


def bring_along(from_group: int, to_group: int) -> bool:
    """Give messages that are left in a dissolved group the one that has its failures; return whether there were any."""
    ids = fetch_values(_LEFT_IN, [from_group, MESSAGES_A_PIECE])
    values = {"messages": ids, "from": from_group, "into": to_group}
    if ids:
        retried(partial(_execute, values, _LOCK_MESSAGES, _BRING))
    return bool(ids)


def _pieces(failures: Iterable[RegroupedFailure]) -> Iterator[list[RegroupedFailure]]:
    piece: list[RegroupedFailure] = []
    messages = 0
    for _, some in groupby(failures, key=lambda one: one.message_id):
        piece += some
        messages += 1
        if messages == MESSAGES_A_PIECE:
            yield piece
            piece, messages = [], 0
    if piece:
        yield piece


def _values(failures: Sequence[RegroupedFailure]) -> dict[str, Any]:
    names = ("messages", "numbers", "formers", "was", "fingerprints", "titles")
    return dict(zip(names, map(list, zip(*failures, strict=True)), strict=True))


def _execute(values: Mapping[str, Any], *statements: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, values)
