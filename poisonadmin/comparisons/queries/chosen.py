"""Which messages are compared: the failing ones of a selection, and others that a filter finds; live and archived ones.

Of more than are looked at, chosen ones: in the order of a hash of their ids, which is the same whenever it is asked.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from poisonadmin.comparisons.domain.comparison import MAX_BYTES, MAX_FAILING, MAX_OTHERS, TABLES, Compared
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import MAX_VALUES
from poisonadmin.core.queries.rows import bounded, fetch_rows
from poisonadmin.core.queries.scope import destination_names_seen, scope_condition
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.archived_index import files_of_pieces, rows_of_several
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import archived_where, can_answer
from poisonadmin.search.queries.lists import matching

# Of others the newest are chosen from, live and archived.
POOL = 1_000_000
SECONDS = 120
# What failed within minutes is compared with what was delivered within this.
LEAST_SPAN = timedelta(hours=1)

_MEMBERS = partial(Sql, "SELECT unnest(message_ids) AS id FROM selection_piece WHERE selection_id = {selection}")
# The choice is made by ids alone; what is read of a message is read of the chosen ones only.
_CHOOSE = partial(
    Sql,
    """WITH found AS MATERIALIZED ({found}), chosen AS (
        SELECT id, address_id, piece_id FROM found ORDER BY hashint8extended(id, {seed}) LIMIT {most}
    )
    SELECT chosen.id, chosen.address_id, chosen.piece_id,
           (SELECT payload_bytes FROM envelope WHERE envelope.id = chosen.id), (SELECT count(*) FROM found),
           ARRAY(SELECT original_address_id FROM message WHERE message.id = chosen.id
                 UNION SELECT intake_address_id FROM envelope WHERE envelope.id = chosen.id
                 UNION SELECT original_address_id FROM archived_message WHERE archived_message.id = chosen.id)
    FROM chosen ORDER BY hashint8extended(chosen.id, {seed})""",
)
_FAILING = partial(
    Sql,
    """SELECT m.id, m.address_id, NULL::bigint AS piece_id
    FROM ({members}) AS member JOIN message m ON m.id = member.id WHERE {live}
    UNION ALL
    SELECT r.id, r.address_id, r.piece_id
    FROM ({members}) AS member JOIN archived_message r ON r.id = member.id WHERE {archived}""",
)
_OTHERS = partial(
    Sql,
    """SELECT m.id, m.address_id, m.piece_id FROM (
        SELECT id, address_id, NULL::bigint AS piece_id FROM ({live}) AS live
        UNION ALL
        (SELECT r.id, r.address_id, r.piece_id FROM archived_message r WHERE {archived} ORDER BY r.id DESC LIMIT {pool})
    ) AS m LEFT JOIN ({members}) AS member USING (id) WHERE member.id IS NULL""",
)
_SPAN = """
SELECT min(received_at), max(received_at) FROM (
    SELECT received_at FROM envelope WHERE id = ANY(%(ids)s)
    UNION ALL SELECT received_at FROM archived_message WHERE id = ANY(%(ids)s)
) AS failing
"""
_HOMES = """
SELECT name, count(*) FROM message m JOIN address ON address.id = coalesce(m.original_address_id, m.address_id)
WHERE m.id = ANY(%s) GROUP BY name
"""


@dataclass(frozen=True)
class Chosen:
    """Ids, rising, of `count` that there are; of the addresses that they are on, and of those that they were moved from
    or came in on; of archived ones the piece, by id."""

    ids: list[int]
    count: int
    address_ids: set[int]
    former_address_ids: set[int]
    pieces: Mapping[int, int]


def choose_failing(selection_id: int, *, seed: int, principal: Principal) -> Chosen:
    """Return members of the selection that are still stored, or archived since, and in scope.

    Errors: `QueryTooExpensive`, `ArchiveUnreadable`.
    """
    found = _FAILING(
        members=_MEMBERS(selection=selection_id),
        live=scope_condition(principal),
        archived=scope_condition(principal, "r.address_id"),
    )
    return _choose(found, MAX_FAILING, seed)


def choose_others(
    against: Mapping[str, Sequence[str]], selection_id: int, *, seed: int, principal: Principal
) -> Chosen:
    """Return messages that a filter finds and that are no members; archived ones where the archive can be asked for
    all of the filter. Errors: `InvalidFilter`, `QueryTooExpensive`, `ArchiveUnreadable`."""
    with bounded(SECONDS):
        asked = parse_filter(against)
        found = _OTHERS(
            live=matching(asked, principal, POOL),
            archived=archived_where(asked, principal) if can_answer(asked) else Sql("FALSE"),
            pool=POOL,
            members=_MEMBERS(selection=selection_id),
        )
        return _choose(found, MAX_OTHERS, seed)


def _choose(found: Sql, most: int, seed: int) -> Chosen:
    with bounded(SECONDS):
        rows = fetch_rows(_CHOOSE(found=found, most=most, seed=seed))
    kept = list(_within_bytes(rows, MAX_BYTES * most // (MAX_FAILING + MAX_OTHERS)))
    return Chosen(
        sorted(row[0] for row in kept),
        rows[0][4] if rows else 0,
        {row[1] for row in kept},
        {one for row in kept for one in row[5] if one is not None},
        {row[0]: row[2] for row in kept if row[2] is not None},
    )


def _within_bytes(rows: Sequence[Any], most: int) -> Iterator[Any]:
    """Yield the first rows, at least one, whose payloads have so many bytes together."""
    ids = [row[0] for row in rows if row[2] is not None]
    archived = {
        one["id"]: one["payload_bytes"] for one in rows_of_several(ids, "messages", columns=("id", "payload_bytes"))
    }
    size = 0
    for at, row in enumerate(rows):
        size += row[3] or archived.get(row[0]) or 0
        if at and size > most:
            return
        yield row


def delivered_beside(failing: Chosen, *, principal: Principal) -> dict[str, list[str]]:
    """Return the filter for what was delivered at the same addresses, and received in the same time.

    At the addresses that messages came in on, where some have been moved. Errors: `IndexError` for no message,
    `ArchiveUnreadable`.
    """
    since, until = fetch_rows(_SPAN, {"ids": failing.ids})[0]
    counts = Counter(dict(fetch_rows(_HOMES, [failing.ids])))
    archived = rows_of_several(list(failing.pieces), "messages", columns=("address", "original_address"))
    counts.update(one["original_address"] or one["address"] for one in archived)
    homes = [name for name in sorted(counts, key=lambda name: (-counts[name], name)) if principal.sees(name)]
    if not homes:
        raise IndexError("none of the messages is there any more")
    return {
        "state": [State.DLVD.value],
        "address": homes[:MAX_VALUES],
        "received_after": [min(since, until - LEAST_SPAN).isoformat()],
        "received_before": [(until + timedelta(seconds=1)).isoformat()],
    }


def compared(
    failing: Chosen, others: Chosen, *, with_payload: bool, principal: Principal, excluded_fields: Sequence[str] = ()
) -> Compared:
    """Return what is to be compared for the principal, and where the archived ones of it are."""
    pieces = {**failing.pieces, **others.pieces}
    files = {table: files_of_pieces(set(pieces.values()), table) for table in TABLES} if pieces else {}
    seen = destination_names_seen(principal)
    return Compared(failing.ids, others.ids, with_payload, tuple(sorted(pieces)), files, seen, excluded_fields)
