"""Undecided messages that a rule's search finds, among those that came last: few searches have an index."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import orjson

from poisonadmin.core.domain.access import Permission, Principal, Role
from poisonadmin.core.queries.masking import clear_of_masks
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch_rows
from poisonadmin.core.queries.sql import EMPTY, Sql, all_of
from poisonadmin.search.deep.domain import HeaderIs, payload_test
from poisonadmin.search.deep.queries import clauses_of
from poisonadmin.search.domain.filters import MessageFilter, parse_filter
from poisonadmin.search.domain.payload_words import DEEP
from poisonadmin.search.queries.live import compile_filter

LOOKED_AT = 20_000
MAX_PAYLOAD_BYTES = 256 * 1024
SECONDS = 3.0
_PAYLOADS_AT_ONCE = 50
_PAYLOADS = "SELECT id, payload FROM body WHERE id = ANY(%s) AND octet_length(payload) <= %s"

Found = tuple[int, str, timedelta]
"""A message: its id, its address, how long it has waited."""


def parsed(search: str) -> MessageFilter:
    """Return the filter that the words of a search say. Errors: `InvalidFilter`."""
    return parse_filter({"q": [search]})


def require_searchable(search: str, principal: Principal) -> None:
    """Do nothing for a search that a rule of the principal's may have. Errors: `InvalidFilter`, `NotAllowed`."""
    asked = parsed(search)
    compile_filter(_plain(asked), principal)
    if asked.is_deep:
        principal.require(Permission.READ_PAYLOAD)


def longest_waiting(search: str, patterns: Sequence[str], on: Sql, longer_than: timedelta) -> Found | None:
    """Return the message that the search finds and that has waited longest; None where none has waited so long.

    Of more than `LOOKED_AT` those that came last are looked at. `patterns`: the addresses that the rule is about, and
    `on`: the same as a condition on `address_id`. Errors: `QueryTooExpensive`.
    """
    asked = parsed(search)
    scope = () if "#" in patterns else (tuple(patterns),)
    with bounded(SECONDS):
        reader = Principal("alerts", Role.VIEWER, frozenset({Permission.READ}), scope)
        where = compile_filter(_plain(asked), reader)
        waiting = Sql(
            """SELECT m.id, a.name, now() - m.undecided_at FROM (
                SELECT * FROM message WHERE undecided_at < now() - {longer_than} AND {on}
                ORDER BY undecided_at DESC, id DESC LIMIT {looked_at}
            ) AS m JOIN address AS a ON a.id = m.address_id WHERE {where} ORDER BY m.undecided_at, m.id {first}""",
            longer_than=longer_than,
            on=on,
            looked_at=LOOKED_AT,
            where=all_of([where.whole, *([clear_of_masks(reader)] if asked.is_deep else [])]),
            first=EMPTY if asked.is_deep else Sql("LIMIT 1"),
        )
        found: list[Any] = fetch_rows(waiting)
        if asked.is_deep:
            found = list(_with_payload(found, asked))
    return found[0] if found else None


def _plain(asked: MessageFilter) -> MessageFilter:
    return MessageFilter(tuple(term for term in asked.terms if term.field not in DEEP))


def _with_payload(found: Sequence[Found], asked: MessageFilter) -> Iterator[Found]:
    """Yield the first message whose payload is what the search says; larger ones are not looked into."""
    test = payload_test([one for one in clauses_of(asked) if not isinstance(one, HeaderIs)], loads=orjson.loads)
    until = time.monotonic() + SECONDS
    for start in range(0, len(found), _PAYLOADS_AT_ONCE):
        if time.monotonic() > until:
            raise QueryTooExpensive(f"The payloads of {len(found)} messages were not read within {SECONDS:g} s.")
        some = found[start : start + _PAYLOADS_AT_ONCE]
        payloads = dict(fetch_rows(_PAYLOADS, [[one[0] for one in some], MAX_PAYLOAD_BYTES]))
        for one in some:
            if one[0] in payloads and test(bytes(payloads[one[0]])):
                yield one
                return
