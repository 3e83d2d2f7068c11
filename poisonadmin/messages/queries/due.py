"""The waiting messages that have come due, and those of them that are held: by their address, or behind a parked one.

Of an ordered conversation nothing is delivered behind a message that waits for a decision (R17).
"""

from functools import partial

from poisonadmin.core.queries.sql import EMPTY, TRUE, Sql

CAP = 10_000
NOW = Sql("now()")
# A lane `l` on which something may wait, and the earliest due time there: behind the head of a conversation messages
# may be due before it.
HAS_WAITING = Sql("(l.next_due IS NOT NULL OR l.head_id IS NOT NULL)")
FLOOR = Sql("CASE WHEN l.head_id IS NULL THEN l.next_due ELSE '-infinity' END")

# The first message of a conversation that waits for a decision on an address.
_FIRST_PARKED = partial(
    Sql,
    """SELECT p.id FROM envelope near JOIN message p ON p.id = near.id
    WHERE near.conversation_id = {conversation} AND p.address_id = {address} AND p.state = 'NDLV' {which}
    ORDER BY p.id LIMIT 1""",
)
# The one that holds `message m`, with its envelope `e` and its address `a`; NULL where none does.
PREDECESSOR = Sql(
    "CASE WHEN m.state = 'TBDL' AND a.is_ordered THEN ({first}) END",
    first=_FIRST_PARKED(
        conversation=Sql("e.conversation_id"), address=Sql("m.address_id"), which=Sql("AND p.id < m.id")
    ),
)

_ON_LANES = partial(
    Sql,
    """(SELECT m.id, l.address_id, l.operation_id, m.due_at, a.is_ordered, {is_held} AS is_held
        FROM lane l JOIN address a ON a.id = l.address_id CROSS JOIN LATERAL (
            SELECT id, due_at FROM message
            WHERE lane_id = l.id AND state = 'TBDL' AND due_at <= {until} AND due_at >= {floor}
            ORDER BY due_at LIMIT {most}
        ) m WHERE {lanes} AND {which} LIMIT {most})""",
    floor=FLOOR,
)
_COME_DUE = partial(
    Sql,
    """WITH came AS MATERIALIZED ({came}), parked AS MATERIALIZED (
        SELECT one.address_id, one.conversation_id, first.id FROM (
            SELECT DISTINCT came.address_id, e.conversation_id FROM came JOIN envelope e ON e.id = came.id
            WHERE came.is_ordered AND NOT came.is_held
        ) one CROSS JOIN LATERAL ({first}) first
    )
    SELECT came.id, came.address_id, came.operation_id, came.due_at, CASE WHEN came.is_ordered AND NOT came.is_held THEN
        EXISTS (SELECT FROM envelope e JOIN parked USING (conversation_id) WHERE e.id = came.id
                AND parked.address_id = came.address_id AND parked.id < came.id) ELSE came.is_held END AS is_held
    FROM came""",
    first=_FIRST_PARKED(conversation=Sql("one.conversation_id"), address=Sql("one.address_id"), which=EMPTY),
)
# It waits for a decision, or for an operation to go on.
_IS_PARKED = Sql(
    """(SELECT head.state = 'NDLV' OR head.state = 'TBDL' AND EXISTS (
        SELECT FROM operation o WHERE o.id = head.operation_id AND o.ended_at IS NULL AND o.state <> 'running')
    FROM message head WHERE head.id = l.head_id)"""
)


def come_due(which: Sql = TRUE, *, until: Sql = NOW, most: int | None = CAP, without_closed: bool = False) -> Sql:
    """Return a query for what waits on the lanes `l` that `which` holds for and was due before `until`.

    Shape: id, address_id, operation_id, due_at, is_held. At most `most` on lanes that deliver, and so many on those
    that do not, or whose conversation is held; `without_closed`: none of these.
    """
    delivering = Sql("l.is_open AND l.next_due <= {until}", until=until)
    closed = Sql(
        "(NOT l.is_open AND {has_waiting} OR l.next_due IS NULL AND {parked})",
        has_waiting=HAS_WAITING,
        parked=_IS_PARKED,
    )
    parts = {"until": until, "most": most, "which": which}
    came = _ON_LANES(is_held=Sql("FALSE"), lanes=delivering, **parts)
    if not without_closed:
        came = Sql("{came} UNION ALL {closed}", came=came, closed=_ON_LANES(is_held=TRUE, lanes=closed, **parts))
    return _COME_DUE(came=came)
