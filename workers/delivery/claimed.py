"""What a shard holds, read in two steps: who they are, then their bytes a few megabytes at a time."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import args_row

from poisonadmin.delivery.domain.slots import end_of_slots
from poisonadmin.destinations.domain.http_config import InvalidDestination
from poisonadmin.sources.domain.broker_kinds import BROKERS
from workers.delivery.broker.sender import BrokerDestination, parse_broker_config
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.destination import HandlerDestination, parse_handler_config
from workers.delivery.http.exchange import HttpDestination, parse_http_config

Destination = HttpDestination | HandlerDestination | BrokerDestination

# Whose slots have their distances among themselves: a destination's, or an operation's there.
_Spaced = tuple[int, int | None]

_SLICE_MESSAGES = 500
_SLICE_BYTES = 8 * 1024 * 1024


class Claimed(NamedTuple):
    """A claimed message without its body: the columns of `_CLAIMED`, in their order."""

    id: int
    attempt_number: int
    address: str
    destination_id: int
    message_id: str
    conversation_id: str | None
    content_type: str
    payload_bytes: int
    start_at: datetime | None
    rate_per_second: float | None
    operation_id: int | None
    expires_at: datetime | None
    bookmark: str | None
    blames_all: bool
    chain: int | None
    delivery_count: int
    is_redelivered: bool
    original_address: str | None
    is_child: bool


_CLAIMED = """
SELECT message.id, message.attempt_number, address.name AS address, destination_id, envelope.message_id,
       conversation_id, content_type, payload_bytes, start_at,
       CASE WHEN start_at IS NOT NULL THEN (
           SELECT least(max_rate_per_second, (SELECT rate_per_second FROM operation_pace
                                              WHERE operation_pace.operation_id = message.operation_id))
           FROM destination WHERE destination.id = destination_id) END AS rate_per_second,
       message.operation_id, message.expires_at, bookmark,
       blame = 'all_in_flight' AS blames_all,
       (SELECT id FROM lane WHERE id = lane_id AND lane.conversation_id IS NOT NULL) AS chain,
       failure_count + 1 AS delivery_count,
       -- A claim that was put back unbegun is not a delivery.
       message.attempt_number > 1 AND message.attempt_number - 1 > (
           SELECT count(*) FROM history WHERE history.message_id = message.id AND event = 'released'
       ) AS is_redelivered,
       CASE WHEN original_address_id IS NOT NULL THEN (
           SELECT name FROM address AS origin WHERE origin.id = original_address_id) END AS original_address,
       parent_id IS NOT NULL AS is_child
FROM claim_shard CROSS JOIN LATERAL unnest(message_ids) WITH ORDINALITY AS taken (id, place)
     -- OFFSET 0 keeps the planner from reading the whole table: its statistics know no message of this claim.
     CROSS JOIN LATERAL (
         SELECT * FROM message WHERE id = taken.id AND claim_id = claim_shard.claim_id AND state = 'DLNG' OFFSET 0
     ) AS message
     JOIN envelope ON envelope.id = message.id JOIN address ON address.id = message.address_id
WHERE claim_shard.claim_id = %s AND claim_shard.shard = %s AND destination_id IS NOT NULL
      AND payload_bytes <= max_payload_bytes
      AND NOT ((SELECT EXISTS (SELECT FROM poison_entry WHERE is_listed)) AND EXISTS (
          SELECT FROM poison_entry AS entry
          WHERE entry.source = address.name AND entry.bookmark = coalesce(envelope.bookmark, envelope.message_id)
            AND entry.is_listed))
      AND NOT ((SELECT EXISTS (SELECT FROM conversation WHERE ended_at IS NOT NULL)) AND EXISTS (
          SELECT FROM conversation
          WHERE conversation.address_id = message.address_id
            AND conversation.conversation_id = envelope.conversation_id AND ended_at IS NOT NULL))
ORDER BY place
"""

_DESTINATIONS = """
SELECT destination.id, name, owner, kind, config, secrets, claim.plan
FROM destination, claim WHERE destination.id = ANY(%s) AND claim.id = %s
"""


def read_claimed(reader: "psycopg.Connection[tuple[object, ...]]", claim_id: int, shard: int) -> list[Claimed]:
    """Return the shard's messages in the order in which they are to begin.

    One that may not be delivered is left out: it is larger than its address takes, its bookmark is on the poison list,
    or its conversation has ended. It goes back and is refused then (poisonadmin/messages/commands/admission.py).
    """
    # By position and in binary: 2 us a row instead of 4.5.
    with reader.cursor(row_factory=args_row(Claimed), binary=True) as cursor:
        return cursor.execute(_CLAIMED, [claim_id, shard]).fetchall()


def read_is_isolation(reader: "psycopg.Connection[tuple[object, ...]]", claim_id: int) -> bool:
    """Return whether the claim holds candidates, to be delivered one after the other."""
    row = reader.execute("SELECT is_isolation FROM claim WHERE id = %s", [claim_id]).fetchone()
    return row is not None and bool(row[0])


def read_destinations(
    reader: "psycopg.Connection[tuple[object, ...]]", claim_id: int, ids: set[int]
) -> dict[int, Destination]:
    """Return the destinations by id, each with this shard's part of its concurrency.

    One that an address was given only after the claim is left out: its messages go back and are claimed for it.
    """
    found: dict[int, Destination] = {}
    for row in reader.execute(_DESTINATIONS, [list(ids), claim_id]).fetchall():
        destination_id, name, owner, kind, config, secrets, plan = row
        assert isinstance(destination_id, int)
        assert isinstance(config, dict)
        assert isinstance(plan, dict)
        if str(destination_id) not in plan:
            continue
        slots = plan[str(destination_id)]["slots"]
        found[destination_id] = _destination(destination_id, str(name), str(owner), str(kind), config, secrets, slots)
    return found


def _destination(
    destination_id: int, name: str, owner: str, kind: str, config: dict[str, Any], secrets: Any, slots: int
) -> Destination:
    """Return the destination; one that cannot be used fails its own deliveries and says why, the others go on."""
    try:
        if kind == "handler":
            return parse_handler_config(config, id=destination_id, name=name, owner=owner, concurrency=slots)
        if kind in BROKERS:
            return parse_broker_config(kind, config, secrets, id=destination_id, name=name, slots=slots)
        return parse_http_config(config, secrets, id=destination_id, name=name, owner=owner, concurrency=slots)
    except InvalidDestination as error:
        if kind == "handler":
            return HandlerDestination(destination_id, name, callable="", broken=error.detail)
        if kind in BROKERS:
            return BrokerDestination(destination_id, name, kind, broken=error.detail)
        return HttpDestination(destination_id, name, url="", broken=error.detail)


def with_bodies(
    reader: "psycopg.Connection[tuple[object, ...]]", claimed: Sequence[Claimed], brokers: Collection[int] = ()
) -> Iterator[list[Delivery]]:
    """Yield the messages with their headers and payloads, a slice at a time, holding no snapshot in between.

    `brokers`: the ids of destinations that need what a broker once said of a message.
    """
    ends = _ends_of_slots(claimed)
    for some in _slices(claimed):
        transport = "transport" if any(one.destination_id in brokers for one in some) else "NULL::bytea"
        rows = reader.execute(
            f"SELECT id, headers, payload, {transport} FROM body WHERE id = ANY(%s)",  # noqa: S608  (one of two)
            [[one.id for one in some]],
            binary=True,
        ).fetchall()
        bodies = {row[0]: row for row in rows}
        yield [_delivery(one, bodies[one.id], ends) for one in some]


def _ends_of_slots(claimed: Sequence[Claimed]) -> dict[_Spaced, float]:
    """Return where the slots that the claim has reserved end."""
    slots: dict[_Spaced, list[float]] = {}
    rates: dict[_Spaced, float] = {}
    for one in claimed:
        if one.start_at is not None and one.rate_per_second is not None:
            spaced = one.destination_id, one.operation_id
            slots.setdefault(spaced, []).append(one.start_at.timestamp())
            rates[spaced] = one.rate_per_second
    return {spaced: end_of_slots(min(some), max(some), rates[spaced]) for spaced, some in slots.items()}


def _delivery(one: Claimed, body: tuple[Any, ...], ends: Mapping[_Spaced, float]) -> Delivery:
    _, stored, payload, transport = body
    headers = json.loads(stored)
    original, queue = one.original_address, None
    if one.is_child:
        original, queue = headers.get("_AMQ_ORIG_ADDRESS", original), headers.get("_AMQ_ORIG_QUEUE")
    return Delivery(
        message_id=one.id,
        attempt_number=one.attempt_number,
        destination_id=one.destination_id,
        address=one.address,
        producer_message_id=one.message_id,
        content_type=one.content_type,
        headers=headers,
        payload=payload,
        start_at=one.start_at.timestamp() if one.start_at else None,
        start_before=ends.get((one.destination_id, one.operation_id)),
        conversation_id=one.conversation_id,
        expires_at=one.expires_at.timestamp() if one.expires_at else None,
        bookmark=one.bookmark,
        blames_all=one.blames_all,
        chain=one.chain,
        transport=transport,
        delivery_count=one.delivery_count,
        is_redelivered=one.is_redelivered,
        original_address=original,
        original_queue=queue,
    )


def _slices(claimed: Sequence[Claimed]) -> Iterator[list[Claimed]]:
    some: list[Claimed] = []
    size = 0
    for one in claimed:
        if some and (len(some) >= _SLICE_MESSAGES or size + one.payload_bytes > _SLICE_BYTES):
            yield some
            some, size = [], 0
        some.append(one)
        size += one.payload_bytes
    if some:
        yield some
