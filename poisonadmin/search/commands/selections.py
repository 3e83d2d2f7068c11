"""Selections: a set of messages is frozen, and one that nothing was done with is removed after a day."""

import json
from collections.abc import Mapping, Sequence
from functools import partial

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import InvalidField, PoisonAdminError
from poisonadmin.core.queries.rows import bounded
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import EMPTY, TRUE, Sql, all_of
from poisonadmin.search.domain.filters import parse_filter, require_values
from poisonadmin.search.domain.selection import MAX_MEMBERS, MEMBERS_A_PIECE, SelectionOrder
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.store.roles import ANALYZED

KEPT_HOURS = 24
MAX_IDS = 10_000
# Of one account, that nothing was done with: some 200 MB.
MAX_UNUSED = 1_000
MAX_UNUSED_MEMBERS = 25_000_000
# To freeze millions takes seconds.
FREEZE_SECONDS = 120

_OPEN = """
INSERT INTO selection (filter, ordering, most, address_ids, created_by, person, reads_payloads, frozen_at, expires_at)
VALUES (%(filter)s, %(ordering)s, %(most)s, '{}', %(by)s, %(person)s, %(reads_payloads)s,
        now(), now() + %(kept)s * interval '1 h')
RETURNING id
"""
_FIRST = {
    SelectionOrder.OLDEST: Sql("m.id"),
    SelectionOrder.NEWEST: Sql("m.id DESC"),
    SelectionOrder.RANDOM: Sql("random()"),
    SelectionOrder.OLDEST_FAILURE: Sql("m.failed_at, m.id"),
    SelectionOrder.NEWEST_FAILURE: Sql("m.failed_at DESC NULLS LAST, m.id DESC"),
}
_NEWEST_FIRST = (SelectionOrder.NEWEST, SelectionOrder.NEWEST_FAILURE)
_FREEZE = partial(
    Sql,
    """WITH found AS MATERIALIZED (
        SELECT id, address_id, (row_number() OVER (ORDER BY id {direction}) - 1) / {size} AS piece
        FROM (SELECT m.id, m.address_id FROM message m WHERE {where} {first}) AS m
    ), pieces AS (
        INSERT INTO selection_piece (selection_id, number, first_id, last_id, message_ids)
        SELECT {id}, piece, min(id), max(id), array_agg(id ORDER BY id) FROM found GROUP BY piece
    )
    UPDATE selection SET count = sums.count, ids_hash = sums.hash, address_ids = coalesce(sums.address_ids, '{{}}')
    FROM (SELECT count(*) AS count, array_agg(DISTINCT address_id) AS address_ids,
             encode(sha256(convert_to(coalesce(string_agg(id || E'\\n', '' ORDER BY id), ''), 'UTF8')), 'hex') AS hash
          FROM found) AS sums
    WHERE selection.id = {id} RETURNING selection.count""",
)
# Of a table that autovacuum saw when it was empty, the planner expects one row, however many have come since, and
# compares each message with each. Fewer than so many members do not mind.
LEAST_ANALYZED = 1_000
_TAKEN_FOR_EMPTY = """
SELECT string_agg(relname, ', ') FROM pg_class WHERE oid = ANY(%s::regclass[]) AND reltuples = 0 AND relpages > 0
"""
_EXPIRED = """
DELETE FROM selection WHERE id IN (
    SELECT id FROM selection WHERE used_at IS NULL AND expires_at <= now() ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED
) RETURNING id
"""
_UNUSED = """
SELECT count(*), coalesce(sum(count), 0) FROM selection WHERE used_at IS NULL AND created_by = %s AND expires_at > now()
"""
_PIECES = "DELETE FROM selection_piece WHERE selection_id = ANY(%(selections)s)"


class TooManySelections(PoisonAdminError):
    """Raised when an account keeps too many selections that nothing was done with."""

    code = "too_many_selections"
    status = 429


class InvalidSelection(InvalidField):
    """Raised when a field of a selection is invalid; `field` names what is wrong."""

    code = "invalid_selection"


def freeze(
    message_filter: Mapping[str, Sequence[str]] | None = None,
    *,
    ids: Sequence[int] | None = None,
    order: SelectionOrder = SelectionOrder.OLDEST,
    most: int | None = None,
    narrowed: Sql = TRUE,
    reads_payloads: bool = False,
    principal: Principal,
) -> int:
    """Freeze the messages that a filter (`GET /messages/`) finds, or those of `ids`, and return the selection's id.

    Only what the principal sees becomes a member. `most`: how many at most, the first in `order`. `narrowed`: what else
    must hold of a message `m`; it may be all that is given. `reads_payloads`: payloads chose the
    members, so nobody sees them without the permission.
    Errors: `NotAllowed`, `InvalidFilter`, `InvalidSelection`, `QueryTooExpensive`.
    """
    principal.require(Permission.READ)
    is_narrowed = narrowed != TRUE
    if (message_filter is None) == (ids is None) and not (is_narrowed and ids is None):
        raise InvalidSelection("filter", "give a filter or ids, and not both.")
    if ids is not None and not 1 <= len(ids) <= MAX_IDS:
        raise InvalidSelection("ids", f"must be 1 to {MAX_IDS} ids; a filter can mean more.")
    require_limit(most)
    asked = None if message_filter is None else {name: list(texts) for name, texts in message_filter.items()}
    require_values(asked or {})
    with bounded(FREEZE_SECONDS), connection.cursor() as cursor:
        where = all_of([_among(ids, asked, principal), narrowed])
        first = EMPTY if most is None else Sql("ORDER BY {order} LIMIT {most}", order=_FIRST[order], most=most)
        direction = Sql("DESC") if order in _NEWEST_FIRST else Sql("ASC")
        _require_room(cursor, principal)
        cursor.execute(
            _OPEN,
            {
                "filter": None if asked is None else json.dumps(asked),
                "ordering": str(order),
                "most": most,
                "by": principal.name,
                "person": principal.person,
                "reads_payloads": reads_payloads,
                "kept": KEPT_HOURS,
            },
        )
        (selection_id,) = cursor.fetchone()
        cursor.execute(*_FREEZE(direction=direction, size=MEMBERS_A_PIECE, where=where, first=first, id=selection_id))
        if cursor.fetchone()[0] >= LEAST_ANALYZED:
            _analyze_first_rows(cursor)
    return int(selection_id)


def _analyze_first_rows(cursor: CursorWrapper) -> None:
    cursor.execute(_TAKEN_FOR_EMPTY, [list(ANALYZED)])
    (tables,) = cursor.fetchone()
    if tables:
        cursor.execute(f"ANALYZE (SKIP_LOCKED) {tables}")


def require_limit(most: int | None) -> None:
    """Do nothing where a selection may be limited to so many messages; raise InvalidSelection."""
    if most is not None and not 1 <= most <= MAX_MEMBERS:
        raise InvalidSelection("limit", f"must be within 1..{MAX_MEMBERS}.")


def _require_room(cursor: CursorWrapper, principal: Principal) -> None:
    """Raise TooManySelections where an account keeps too many selections that nothing was done with."""
    cursor.execute(_UNUSED, [principal.name])
    selections, members = cursor.fetchone()
    if selections >= MAX_UNUSED or members >= MAX_UNUSED_MEMBERS:
        raise TooManySelections(
            f"{principal.name} has {selections} selections of {members} messages that nothing was done with. "
            f"Each is removed after {KEPT_HOURS} hours; use one of them."
        )


def _among(ids: Sequence[int] | None, asked: Mapping[str, Sequence[str]] | None, principal: Principal) -> Sql:
    if ids is not None:
        return Sql("m.id = ANY({ids}) AND {scope}", ids=list(ids), scope=scope_condition(principal))
    return compile_filter(parse_filter(asked or {}), principal).whole


def remove_expired() -> int:
    """Remove selections that no operation was begun on within a day; return how many."""
    removed = 0
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_EXPIRED)
            gone = [row[0] for row in cursor.fetchall()]
            cursor.execute(_PIECES, {"selections": gone})
        removed += len(gone)
        if not gone:
            return removed
