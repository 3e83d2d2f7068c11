"""Messages that belong together: those of a message's conversation, and of its trace, oldest first."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.masking import clear_of_masks
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, Window, count_rows, window
from poisonadmin.core.queries.rows import QueryTooExpensive, bounded, fetch
from poisonadmin.core.queries.scope import scope_condition
from poisonadmin.core.queries.sql import Sql, join
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.messages.domain.traces import trace_id, trace_key
from poisonadmin.messages.queries.detail_rows import MessageDetail

SECONDS_TO_READ = 1
# Of those before a message on its page, and of those after it.
SHOWN_AROUND = 8
_KEY = Key(("m.id",), (int,), descending=False)


@dataclass(frozen=True)
class RelatedRow:
    """A message as a timeline shows it. `in_conversation`, `in_trace`: what it shares with the message asked about."""

    id: int
    message_id: str
    address: str
    state: str
    reason: str | None
    received_at: datetime
    state_at: datetime
    in_conversation: bool
    in_trace: bool


@dataclass(frozen=True)
class Around:
    """The messages next to one in time, with itself among them; `is_all`: there are no others.

    `rows` None: they cannot be read in time.
    """

    rows: list[RelatedRow] | None
    is_all: bool


def list_related(
    message_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[RelatedRow]:
    """Return a page of the live messages that share a conversation or a trace with a message, itself among them.

    Errors: `NotFound`, `InvalidCursor`, `QueryTooExpensive`.
    """
    message = get_message(message_id, principal=principal)
    return _page(message, principal, window(cursor, limit, _KEY))


def around(message: MessageDetail, *, principal: Principal) -> Around:
    """Return those that came before and after a message, as far as its page shows them."""
    try:
        before = _page(message, principal, Window(_KEY, SHOWN_AROUND + 1, (message.id + 1,), backward=True))
        after = _page(message, principal, Window(_KEY, SHOWN_AROUND, (message.id,)))
    except QueryTooExpensive:
        return Around(None, is_all=False)
    return Around([*before.results, *after.results], before.previous is None and after.next is None)


def _page(message: MessageDetail, principal: Principal, page: Window) -> Page[RelatedRow]:
    principal.require(Permission.READ)
    # From what the reader is shown of the message, and of the others: what is masked leads nowhere, nor is it found.
    trace = trace_id(message.headers)
    scope = scope_condition(principal)
    branches = []
    if message.conversation_id:
        branches.append(
            Sql(
                """SELECT m.id, TRUE AS in_conversation, FALSE AS in_trace FROM envelope e JOIN message m ON m.id = e.id
                WHERE e.conversation_id = {conversation} AND {scope}""",
                conversation=message.conversation_id,
                scope=scope,
            )
        )
    if trace:
        branches.append(
            Sql(
                """SELECT m.id, FALSE AS in_conversation, TRUE AS in_trace FROM body b JOIN message m ON m.id = b.id
                WHERE trace_key(b.headers) = {key} AND {scope} AND {clear}""",
                key=trace_key(trace),
                scope=scope,
                clear=clear_of_masks(principal),
            )
        )
    if not branches:
        return Page([], None, None)
    few = join(
        " UNION ALL ",
        [Sql("({one} AND {place} {order})", one=one, place=page.where, order=page.order) for one in branches],
    )
    rows_of = Sql(
        """SELECT m.id, e.message_id, a.name AS address, m.state, m.reason, e.received_at, m.state_at,
        r.in_conversation, r.in_trace
        FROM (SELECT id, bool_or(in_conversation) AS in_conversation, bool_or(in_trace) AS in_trace
              FROM ({few}) found GROUP BY id) r
        JOIN message m ON m.id = r.id JOIN envelope e ON e.id = m.id JOIN address a ON a.id = m.address_id {order}""",
        few=few,
        order=page.order,
    )
    with bounded(SECONDS_TO_READ):
        rows = fetch(RelatedRow, rows_of)
    whole = Sql("SELECT DISTINCT id FROM ({all}) every", all=join(" UNION ALL ", branches))
    return page.page(rows, lambda: count_rows(whole))
