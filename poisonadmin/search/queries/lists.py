"""Lists of messages, by keyset and never counted to be paged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID, InvalidFilter
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, MAX_LIMIT, Count, Key, Page, Window, count_rows, window
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.messages.queries.archived_index import require_archived
from poisonadmin.messages.queries.merged_groups import SEEN_AS
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.queries.counted import count_by_counters
from poisonadmin.search.queries.list_plans import Walk, plan_list
from poisonadmin.search.queries.live import Where, compile_filter

ORDERINGS = {"-id": Key(("m.id",), (int,)), "id": Key(("m.id",), (int,), descending=False)}
EXPORT_SLICE = 1000
NEIGHBOUR_SECONDS = 2

COLUMNS = f"""m.id, e.message_id, a.name AS address, m.state, m.reason, m.candidate, m.attempt_number, m.failure_count,
 m.crash_count, CASE WHEN m.state = 'TBDL' THEN m.due_at END AS due_at, m.state_at, e.received_at, m.failed_at,
 e.expires_at, e.conversation_id, e.content_type, e.payload_bytes, o.name AS original_address, {SEEN_AS} AS group_id,
 g.title AS group_title, coalesce((SELECT jsonb_object_agg(k.name, k.value) FROM business_key k
 WHERE k.message_id = m.id), jsonb_build_object()) AS business_keys, m.attempt_number - (SELECT count(*)::int
 FROM history h WHERE h.message_id = m.id AND h.event = 'released') AS attempts_begun,
 a.status AS address_status, (SELECT username FROM auth_user JOIN message_owner ON owner_id = auth_user.id
 WHERE message_owner.message_id = m.id) AS owner, coalesce((SELECT tags FROM message_tag
 WHERE message_tag.message_id = m.id), ARRAY[]::text[]) AS tags, FALSE AS archived"""  # noqa: S608
JOINS = """JOIN envelope e ON e.id = m.id JOIN address a ON a.id = m.address_id
 LEFT JOIN address o ON o.id = m.original_address_id LEFT JOIN failure_group g ON g.id = m.group_id"""


@dataclass(frozen=True)
class MessageRow:
    """A message as lists show it. `group_title` is its last failure in one line, `business_keys` what the policy of its
    address had named at intake. `attempts_begun` leaves out what was claimed and put back before it was begun, which
    `attempt_number` counts. Nothing is delivered while `address_status` is not ON, whatever is due.
    `owner`: the account that cares for it. `tags`: those of rules and of people. `archived`: it is in the archive
    alone, from which it can be restored.
    """

    id: int
    message_id: str
    address: str
    state: str
    reason: str | None
    candidate: bool
    attempt_number: int
    failure_count: int
    crash_count: int
    due_at: datetime | None
    state_at: datetime
    received_at: datetime
    failed_at: datetime | None
    expires_at: datetime | None
    conversation_id: str | None
    content_type: str
    payload_bytes: int
    original_address: str | None
    group_id: int | None
    group_title: str | None
    business_keys: Mapping[str, str]
    attempts_begun: int
    address_status: str
    owner: str | None
    tags: Sequence[str]
    archived: bool

    @property
    def etag(self) -> str:
        """What a decision's `If-Match` is compared with."""
        return f'"{self.state}-{self.attempt_number}-{self.failure_count}"'


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
        return _read(where, page, lambda: _total(message_filter, where, principal))


def total(message_filter: MessageFilter, *, principal: Principal) -> Count | None:
    """Return how many messages match: exactly where the counters tell, otherwise counted to 10,000.

    None where that takes more than a tenth of a second.
    """
    principal.require(Permission.READ)
    return _total(message_filter, compile_filter(message_filter, principal), principal)


def _total(message_filter: MessageFilter, where: Where, principal: Principal) -> Count | None:
    if (exact := count_by_counters(message_filter, principal)) is not None:
        return Count(exact, capped=False)
    return count_rows(f"SELECT FROM message m WHERE {where.whole}", where.parameters)


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


def messages_by_id(ids: Sequence[int], *, principal: Principal) -> list[MessageRow]:
    """Return the messages among `ids` (at most 500 are read) that the principal may see, newest first."""
    principal.require(Permission.READ)
    wanted = [message_id for message_id in ids if 0 < message_id <= MAX_ID][:MAX_LIMIT]
    rows = fetch(
        MessageRow,
        f"SELECT {COLUMNS} FROM message m {JOINS} WHERE m.id = ANY(%s) ORDER BY m.id DESC",  # noqa: S608
        [wanted],
    )
    return [row for row in rows if principal.sees(row.address)]


def require_message(message_id: int, principal: Principal, permission: Permission = Permission.READ) -> bool:
    """Return whether the message is in the database, and not archived.

    Errors: `NotFound`, also out of scope; `MessageErased`; `NotAllowed`.
    """
    principal.require(permission)
    found = []
    if 0 < message_id <= MAX_ID:
        found = fetch_values(
            "SELECT a.name FROM message m JOIN address a ON a.id = m.address_id WHERE m.id = %s", [message_id]
        )
    if not found:
        require_archived(message_id, principal)
        return False
    if not principal.sees(found[0]):
        raise NotFound(f"There is no message {message_id}.")
    return True


def count_messages(
    message_filter: MessageFilter, *, principal: Principal, since: int | None = None, cap: int = 10_000
) -> Count:
    """Return how many match, of those that came after message `since` where it is given; counted to `cap`."""
    principal.require(Permission.READ)
    with bounded():
        where = compile_filter(message_filter, principal)
        newer, after = ("TRUE", []) if since is None else ("m.id > %s", [min(since, MAX_ID)])
        return capped_count(f"{newer} AND {where.whole}", [*after, *where.parameters], cap)


def capped_count(condition: str, parameters: Sequence[Any], cap: int) -> Count:
    """Return how many rows of `message m` fulfil the condition, counted to `cap`."""
    sql = f"SELECT count(*) FROM (SELECT FROM message m WHERE {condition} LIMIT {cap + 1}) m"  # noqa: S608
    found = fetch_values(sql, parameters)[0]
    return Count(min(found, cap), found > cap)


def iter_messages(message_filter: MessageFilter, principal: Principal, limit: int) -> Iterator[MessageRow]:
    """Yield up to `limit` messages, newest first, read in slices so that no snapshot is held for long."""
    principal.require(Permission.READ)
    cursor: str | None = None
    while limit > 0:
        page = window(cursor, min(limit, EXPORT_SLICE), ORDERINGS["-id"], most=EXPORT_SLICE)
        with bounded():
            found = _read(compile_filter(message_filter, principal), page)
        yield from found.results
        limit -= len(found.results)
        cursor = found.next
        if cursor is None:
            return


def matching(message_filter: MessageFilter, principal: Principal, limit: int) -> tuple[str, list[Any]]:
    """Return a query for the newest `limit` rows of `message` that match, in no order, and its parameters."""
    where = compile_filter(message_filter, principal)
    page = Window(ORDERINGS["-id"], limit - 1)
    walks = plan_list(where)
    if len(walks) == 1:
        return _merged(walks, where, page, "m.*")
    # Each walk finds as many as are wanted of all, and indexes alone tell their ids.
    sql, values = _merged(walks, where, page, "m.id")
    newest = f"SELECT id FROM ({sql}) found ORDER BY id DESC LIMIT {int(limit)}"  # noqa: S608
    return f"SELECT m.* FROM message m WHERE m.id = ANY(ARRAY({newest}))", values  # noqa: S608


def _read(where: Where, page: Window, counting: Callable[[], Count | None] | None = None) -> Page[MessageRow]:
    sql, values = _merged(plan_list(where), where, page, "m.*")
    first = f"SELECT * FROM ({sql}) m {page.order}"  # noqa: S608
    rows = fetch(MessageRow, f"SELECT {COLUMNS} FROM ({first}) m {JOINS} {page.order}", values)  # noqa: S608
    return page.page(rows, counting)


def _merged(walks: Sequence[Walk], where: Where, page: Window, selected: str) -> tuple[str, list[Any]]:
    """Return a query for what is `selected` of the page's rows of `message m`, and maybe more, and its parameters."""
    branches = [f"({walk.sql(where.sql, page, selected)})" for walk in walks or [Walk(("FALSE",))]]
    return " UNION ALL ".join(branches), [*where.parameters, *page.parameters] * len(branches)
