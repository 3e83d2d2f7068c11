"""What pages need besides their lists: the ticked rows, how many came since, who delivers to a destination."""

from collections.abc import Sequence
from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.paging import MAX_ID, MAX_LIMIT
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.messages.queries.filter_sql import compile_filter
from poisonadmin.messages.queries.filters import MessageFilter
from poisonadmin.messages.queries.lists import COLUMNS, JOINS, Count, MessageRow

NEWER_CAP = 100


@dataclass(frozen=True)
class AddressStatusRow:
    """An address and whether it delivers."""

    name: str
    status: str


def addresses_of(destination_id: int, *, principal: Principal, limit: int = 200) -> list[AddressStatusRow]:
    """Return the first addresses, by name, that deliver to the destination and that the principal may see."""
    principal.require(Permission.READ)
    ids = visible_ids(principal)
    scope, parameters = ("TRUE", []) if ids is None else ("a.id = ANY(%s)", [ids])
    return fetch(
        AddressStatusRow,
        f"SELECT a.name, a.status FROM address a WHERE a.destination_id = %s AND {scope} ORDER BY a.name LIMIT %s",  # noqa: S608
        [destination_id, *parameters, limit],
    )


def ticked(ids: Sequence[int], *, principal: Principal) -> list[MessageRow]:
    """Return the messages among `ids` (at most 500 are read) that the principal may see, newest first."""
    principal.require(Permission.READ)
    wanted = [message_id for message_id in ids if 0 < message_id <= MAX_ID][:MAX_LIMIT]
    rows = fetch(
        MessageRow,
        f"SELECT {COLUMNS} FROM message m {JOINS} WHERE m.id = ANY(%s) ORDER BY m.id DESC",  # noqa: S608
        [wanted],
    )
    return [row for row in rows if principal.sees(row.address)]


def count_newer(message_filter: MessageFilter, *, principal: Principal, since: int) -> Count:
    """Return how many matching messages came after `since`, counted no further than 100."""
    principal.require(Permission.READ)
    with bounded():
        where = compile_filter(message_filter, principal)
        found = fetch_values(
            f"SELECT count(*) FROM (SELECT FROM message m WHERE m.id > %s AND {where.whole}"  # noqa: S608
            f" LIMIT {NEWER_CAP + 1}) newer",
            [min(since, MAX_ID), *where.parameters],
        )[0]
    return Count(min(found, NEWER_CAP), found > NEWER_CAP)
