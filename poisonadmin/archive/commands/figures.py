"""Figures by day (UTC) and address that are kept when what was counted is archived, and older than what is kept.

Of archived messages: in which states they ended, their decisions with the seconds before them, and their tries by
number and result. They are added with a piece and taken off with a message that is live again, so that what is live
and these figures add up. Of all messages: failures, from the counts by hour, which are kept for five weeks.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from poisonadmin.archive.domain.figures import (
    DECISION_SECONDS,
    DECISIONS,
    DELIVERED,
    FAILURES,
    KEPT_MONTHS,
    MOST_ATTEMPTS,
    NOT_DELIVERED,
)
from poisonadmin.core.queries.sql import Sql, named_sql, raw
from poisonadmin.decisions.operations.domain.actions import DECISION_EVENTS
from poisonadmin.messages.domain.states import Event, State

_NAMES = {
    "events": raw(", ".join(f"'{one}'" for one in DECISION_EVENTS)),
    "final_or_waiting": raw(", ".join(f"'{one}'" for one in (State.DLVD, State.NDLV, State.FAIL))),
    "assigned": raw(f"'{Event.ASSIGNED}'"),
    "waiting": raw(f"'{State.NDLV}'"),
    "decisions": raw(f"'{DECISIONS}'"),
    "decision_seconds": raw(f"'{DECISION_SECONDS}'"),
    "delivered": raw(f"'{DELIVERED}'"),
    "not_delivered": raw(f"'{NOT_DELIVERED}'"),
}
# `{chosen}`: id, address_id, state and state_at of messages with ids above `after`, up to `until`.
_COUNTED = partial(
    named_sql,
    """
WITH chosen AS ({chosen}), life AS (
    SELECT h.message_id, h.event, h.from_state, h.at, lag(h.at) OVER one AS before_at
    FROM history AS h JOIN chosen ON chosen.id = h.message_id
    WHERE h.message_id > %(after)s AND h.message_id <= %(until)s AND h.event <> {assigned}
      AND (h.event IN ({events}) OR h.to_state IN ({final_or_waiting}))
    WINDOW one AS (PARTITION BY h.message_id ORDER BY h.seq)
), decided AS (
    SELECT (life.at AT TIME ZONE 'UTC')::date AS day, address_id, count(before_at) AS n,
           coalesce(sum(round(extract(epoch FROM life.at - before_at))), 0)::bigint AS seconds
    FROM life JOIN chosen ON chosen.id = message_id
    WHERE life.from_state = {waiting} AND life.event IN ({events}) GROUP BY 1, 2
), figures AS (
    SELECT (state_at AT TIME ZONE 'UTC')::date AS day, address_id, state AS figure, count(*) AS n
    FROM chosen GROUP BY 1, 2, 3
    UNION ALL SELECT day, address_id, {decisions}, n FROM decided
    UNION ALL SELECT day, address_id, {decision_seconds}, seconds FROM decided
    UNION ALL
    SELECT (t.finished_at AT TIME ZONE 'UTC')::date, address_id,
           CASE WHEN t.outcome = 'delivered' THEN {delivered} ELSE {not_delivered} END
           || LEAST(t.attempt_number, {most_attempts}), count(*)
    FROM attempt AS t JOIN chosen ON chosen.id = t.message_id
    WHERE t.message_id > %(after)s AND t.message_id <= %(until)s AND t.attempt_number > 0 GROUP BY 1, 2, 3
)
""",
    most_attempts=MOST_ATTEMPTS,
    **_NAMES,
)
_OF_PIECE = raw("SELECT id, address_id, state, state_at FROM pruned")
_OF_MESSAGE = raw("""
SELECT %(id)s::bigint AS id, %(address_id)s::bigint AS address_id, %(state)s::text AS state,
       %(state_at)s::timestamptz AS state_at
""")
_ADD = str(
    named_sql(
        """
{counted}
INSERT INTO day_figure (day, address_id, figure, n)
SELECT day, address_id, figure, sum(n) FROM figures GROUP BY 1, 2, 3 HAVING sum(n) > 0 ORDER BY 1, 2, 3
ON CONFLICT (day, address_id, figure) DO UPDATE SET n = day_figure.n + excluded.n
""",
        counted=_COUNTED(chosen=_OF_PIECE),
    )
)
_TAKE_OFF = str(
    named_sql(
        """
{counted}
UPDATE day_figure AS kept SET n = kept.n - gone.n
FROM (SELECT day, address_id, figure, sum(n) AS n FROM figures GROUP BY 1, 2, 3) AS gone
WHERE kept.day = gone.day AND kept.address_id = gone.address_id AND kept.figure = gone.figure
""",
        counted=_COUNTED(chosen=_OF_MESSAGE),
    )
)
# What comes late is counted too; and what is removed by the hour is not taken off.
_ROLL_UP = Sql(
    """
INSERT INTO day_figure (day, address_id, figure, n)
SELECT (hour AT TIME ZONE 'UTC')::date, address_id, {failures}, sum(failures)
FROM group_hour WHERE hour < date_trunc('day', now(), 'UTC') GROUP BY 1, 2 HAVING sum(failures) > 0 ORDER BY 1, 2
ON CONFLICT (day, address_id, figure) DO UPDATE SET n = GREATEST(day_figure.n, excluded.n)
""",
    failures=FAILURES,
)


def add_piece(cursor: CursorWrapper, values: Mapping[str, Any]) -> None:
    """Add the figures of a piece, before its rows go. `values`: after, until; the table `pruned` has its messages."""
    cursor.execute(_ADD, values)


def take_off(cursor: CursorWrapper, archived: Mapping[str, Any]) -> None:
    """Take off the figures of a message whose rows are live again. `archived`: id, address_id, state, state_at."""
    values = dict(archived) | {"after": archived["id"] - 1, "until": archived["id"]}
    cursor.execute(_TAKE_OFF, values)


def roll_up_failures() -> None:
    """Bring the failures of whole days up to date, before the counts by hour go."""
    with connection.cursor() as cursor:
        cursor.execute(*_ROLL_UP)


def forget_figures() -> None:
    """Remove figures of days that are kept long enough."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM day_figure WHERE day < now() - %s * interval '1 month'", [KEPT_MONTHS])
