"""Lists of messages, by keyset and never counted to be paged."""

from collections.abc import Callable, Iterator, Sequence

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.filter_values import MAX_ID, InvalidFilter
from poisonadmin.core.queries.masking import masked, masked_page
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Count, Key, Page, Window, count_rows, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.core.queries.sql import TRUE, Sql, all_of, join
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, MessageRow
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.queries.counted import count_by_counters
from poisonadmin.search.queries.list_plans import EVERY_COLUMN, Walk, plan_list
from poisonadmin.search.queries.live import Where, compile_filter

ORDERINGS = {"-id": Key(("m.id",), (int,)), "id": Key(("m.id",), (int,), descending=False)}
EXPORT_SLICE = 1000
NEIGHBOUR_SECONDS = 2


def list_messages(
    message_filter: MessageFilter,
    *,
    principal: Principal,
    cursor: str | None = None,
    limit: int = DEFAULT_LIMIT,
    ordering: str = "-id",
) -> Page[MessageRow]:
    """Return one page. Raise InvalidCursor, InvalidFilter, QueryTooExpensive."""
    principal.require(Permission.READ)
    if ordering not in ORDERINGS:
        raise InvalidFilter("ordering", f"Messages are ordered by id or -id, not by {ordering[:40]!r}.")
    page = window(cursor, limit, ORDERINGS[ordering])
    with bounded():
        where = compile_filter(message_filter, principal)
        found = _read(where, page, lambda: _total(message_filter, where, principal))
    return masked_page(found, principal)


def total(message_filter: MessageFilter, *, principal: Principal) -> Count | None:
    """Return how many messages match: exactly where the counters tell, otherwise counted to 10,000.

    None where that takes more than a tenth of a second.
    """
    principal.require(Permission.READ)
    return _total(message_filter, compile_filter(message_filter, principal), principal)


def _total(message_filter: MessageFilter, where: Where, principal: Principal) -> Count | None:
    if (exact := count_by_counters(message_filter, principal)) is not None:
        return Count(exact, capped=False)
    return count_rows(Sql("SELECT FROM message m WHERE {where}", where=where.whole))


def neighbours(
    message_filter: MessageFilter, message_id: int, *, principal: Principal, ordering: str = "-id"
) -> tuple[int | None, int | None]:
    """Return the ids of the messages before and after this one in a list, which need not hold it itself.

    Errors: `InvalidFilter`, `QueryTooExpensive` (after 2 s).
    """
    principal.require(Permission.READ)
    key = ORDERINGS.get(ordering, ORDERINGS["-id"])
    with bounded(NEIGHBOUR_SECONDS):
        where = compile_filter(message_filter, principal)
        before, after = (
            _read(where, Window(key, 1, (min(message_id, MAX_ID),), backward)).results for backward in (True, False)
        )
    return before[0].id if before else None, after[0].id if after else None


def count_messages(
    message_filter: MessageFilter, *, principal: Principal, since: int | None = None, cap: int = 10_000
) -> Count:
    """Return how many match, of those that came after message `since` where it is given; counted to `cap`."""
    principal.require(Permission.READ)
    with bounded():
        where = compile_filter(message_filter, principal)
        newer = TRUE if since is None else Sql("m.id > {since}", since=min(since, MAX_ID))
        return capped_count(all_of([newer, where.whole]), cap)


def capped_count(condition: Sql, cap: int) -> Count:
    """Return how many rows of `message m` fulfil the condition, counted to `cap`."""
    counted = Sql(
        "SELECT count(*) FROM (SELECT FROM message m WHERE {condition} LIMIT {most}) m",
        condition=condition,
        most=cap + 1,
    )
    found = fetch_values(counted)[0]
    return Count(min(found, cap), found > cap)


def iter_messages(message_filter: MessageFilter, principal: Principal, limit: int) -> Iterator[MessageRow]:
    """Yield up to `limit` messages, newest first, read in slices so that no snapshot is held for long."""
    principal.require(Permission.READ)
    cursor: str | None = None
    while limit > 0:
        page = window(cursor, min(limit, EXPORT_SLICE), ORDERINGS["-id"], most=EXPORT_SLICE)
        with bounded():
            found = _read(compile_filter(message_filter, principal), page)
        yield from masked(found.results, principal)
        limit -= len(found.results)
        cursor = found.next
        if cursor is None:
            return


def matching(message_filter: MessageFilter, principal: Principal, limit: int) -> Sql:
    """Return a query for the newest `limit` rows of `message` that match, in no order."""
    where = compile_filter(message_filter, principal)
    page = Window(ORDERINGS["-id"], limit - 1)
    walks = plan_list(where)
    if len(walks) == 1:
        return merged(walks, where, page)
    # Each walk finds as many as are wanted of all, and indexes alone tell their ids.
    return Sql(
        """SELECT m.* FROM message m WHERE m.id = ANY(ARRAY(
        SELECT id FROM ({found}) found ORDER BY id DESC LIMIT {limit}))""",
        found=merged(walks, where, page, Sql("m.id")),
        limit=limit,
    )


def _read(where: Where, page: Window, counting: Callable[[], Count | None] | None = None) -> Page[MessageRow]:
    rows = fetch(
        MessageRow,
        Sql(
            "SELECT {columns} FROM (SELECT * FROM ({found}) m {order}) m {joins} {order}",
            columns=COLUMNS,
            found=merged(plan_list(where), where, page),
            order=page.order,
            joins=JOINS,
        ),
    )
    return page.page(rows, counting)


def merged(walks: Sequence[Walk], where: Where, page: Window, selected: Sql = EVERY_COLUMN) -> Sql:
    """Return a query for what is `selected` of the page's rows of `message m`, and maybe more."""
    branches = [walk.sql(where.rest, page, selected) for walk in walks or [Walk((Sql("FALSE"),))]]
    return join(" UNION ALL ", (Sql("({branch})", branch=one) for one in branches))
