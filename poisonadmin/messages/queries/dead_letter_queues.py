"""Queues that were auto-created under a dead-letter address, one per original address (ART-13, ART-17).

A queue is the name that the moves into it carry: a message is in the queue of its last move, while it is where that
move has put it. It is reached by its own name, or with its address, as `DLA::DLQ.orders`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from poisonadmin.core.domain.addresses import is_pattern
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.scope import address_ids
from poisonadmin.core.queries.sql import Sql, any_of

QUALIFIED = "::"


class DeadLetterQueue(NamedTuple):
    """A queue under a dead-letter address, whose id is `address_id`."""

    address_id: int
    address: str
    name: str


def _pairs(named: Sql) -> Sql:
    """Return the beginning of a query for pairs of a queue and its address, `pair`, whose queue is `named` so."""
    # The pairs are few and the moves are many: the index is entered once a pair instead of being read through.
    return Sql(
        """WITH RECURSIVE pair AS (
            (SELECT queue, to_address FROM hop WHERE queue IS NOT NULL AND {named} ORDER BY queue, to_address LIMIT 1)
            UNION ALL
            SELECT following.queue, following.to_address FROM pair CROSS JOIN LATERAL (
                SELECT queue, to_address FROM hop
                WHERE queue IS NOT NULL AND (queue, to_address) > (pair.queue, pair.to_address) AND {named}
                ORDER BY queue, to_address LIMIT 1) AS following
        )""",
        named=named,
    )


def queues_under(address: str) -> list[str]:
    """Return the names of the queues under a dead-letter address, rising, at most a thousand."""
    return fetch_values(
        _pairs(Sql("TRUE")) + Sql("SELECT queue FROM pair WHERE to_address = {address} LIMIT 1000", address=address)
    )


def queues_named(names: Sequence[str]) -> list[DeadLetterQueue]:
    """Return the queues that any of `names` means: their own name, or one with its address before it."""
    found: dict[DeadLetterQueue, None] = {}
    for name in names:
        address, qualified, queue = name.partition(QUALIFIED)
        if qualified:
            found |= {DeadLetterQueue(address_id, address, queue): None for address_id in address_ids([address])}
        pairs = _pairs(Sql("queue = {name}", name=name))
        for holding in fetch_values(pairs + Sql("SELECT to_address FROM pair")):
            found |= {DeadLetterQueue(address_id, holding, name): None for address_id in address_ids([holding])}
    return list(found)


def queues_of(names: Sequence[str]) -> list[DeadLetterQueue]:
    """Return the queues that addresses in a filter mean; a pattern means none."""
    return queues_named([name for name in names if not is_pattern(name)])


def in_any_queue(queues: Sequence[DeadLetterQueue]) -> Sql:
    """Return the condition that `message m` is in one of the queues."""
    return any_of(
        Sql(
            """m.address_id = {id} AND EXISTS (
            SELECT FROM hop WHERE hop.message_id = m.id AND hop.queue = {queue} AND hop.to_address = {address}
              AND NOT EXISTS (SELECT FROM hop AS later WHERE later.message_id = m.id AND later.id > hop.id))""",
            id=queue.address_id,
            queue=queue.name,
            address=queue.address,
        )
        for queue in queues
    )
