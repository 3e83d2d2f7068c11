"""The messages of a shard, read in two steps: all without their bodies, then these a few megabytes at a time."""

import json
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from psycopg.rows import args_row, class_row

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.encryption import UnreadableSecret, decrypted
from poisonadmin.delivery.domain.claim_plan import end_of_slots
from poisonadmin.destinations.domain.http_config import InvalidDestination
from workers.delivery.broker import BrokerDestination, parse_broker_config
from workers.delivery.deliveries import ConfiguredDestination, Delivery, TaskDestination
from workers.delivery.handler.destination import HandlerDestination, parse_handler_config
from workers.delivery.http.exchange import HttpDestination, parse_http_config
from workers.delivery.sessions import Session

# Slots have their distances among those of a destination, or of an operation there.
_Spaced = tuple[int, int | None]

_SLICE_MESSAGES = 500
_SLICE_BYTES = 8 * 1024 * 1024


# The fields of a `Delivery` but its body, in their order.
_CLAIMED = """
SELECT message.id, message.attempt_number, destination_id, address.name AS address, envelope.message_id,
       content_type, conversation_id, payload_bytes, extract(epoch FROM start_at)::float8 AS start_at,
       CASE WHEN start_at IS NOT NULL THEN (
           SELECT least(max_rate_per_second, (SELECT rate_per_second FROM operation_pace
                                              WHERE operation_pace.operation_id = message.operation_id))
           FROM destination WHERE destination.id = destination_id) END AS rate_per_second,
       message.operation_id, extract(epoch FROM message.expires_at)::float8 AS expires_at, bookmark,
       (SELECT id FROM lane WHERE id = lane_id AND lane.conversation_id IS NOT NULL) AS chain,
       failure_count + 1 + CASE WHEN message.attempt_number > 1 THEN (
           -- Begun and never answered, since the failures are counted.
           SELECT count(*) FROM history WHERE history.message_id = message.id AND event = 'outcome_lost' AND seq > (
               SELECT coalesce(max(seq), 0) FROM history WHERE history.message_id = message.id AND from_state = 'NDLV')
       ) ELSE 0 END AS delivery_count,
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
      AND (operation_id = ANY(ARRAY(
          SELECT operation.id FROM operation WHERE ended_at IS NULL AND operation.state <> 'running'))) IS NOT TRUE
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
SELECT destination.id, name, owner, kind, config, secrets, (plan -> destination.id::text ->> 'slots')::int AS slots
FROM destination, claim WHERE destination.id = ANY(%s) AND claim.id = %s AND plan ? destination.id::text
"""

_BODIES = "SELECT id, headers, payload, CASE WHEN %s THEN transport END FROM body WHERE id = ANY(%s)"

_KINDS: dict[str, tuple[type[TaskDestination], Callable[[ConfiguredDestination], TaskDestination]]] = {
    "http": (HttpDestination, parse_http_config),
    "handler": (HandlerDestination, parse_handler_config),
    **dict.fromkeys(BROKERS, (BrokerDestination, parse_broker_config)),
}


def read_claimed(reader: Session, claim_id: int, shard: int) -> deque[Delivery]:
    """Return the shard's messages, without their bodies, in the order in which they are to begin.

    One that may not be delivered is left out: it is larger than its address takes, its bookmark is on the poison list,
    or its conversation has ended. It goes back and is refused then (poisonadmin/messages/commands/admission.py). So is
    one whose operation is held by now: it goes back and waits.
    """
    # By position and in binary: 2 us a row instead of 4.5.
    with reader.cursor(row_factory=args_row(Delivery), binary=True) as cursor:
        return deque(cursor.execute(_CLAIMED, [claim_id, shard]).fetchall())


def read_destinations(reader: Session, claim_id: int, ids: set[int]) -> dict[int, TaskDestination]:
    """Return the destinations by id, each with this shard's part of its concurrency.

    One that an address was given only after the claim is left out: its messages go back and are claimed for it.
    """
    with reader.cursor(row_factory=class_row(ConfiguredDestination)) as cursor:
        rows = cursor.execute(_DESTINATIONS, [list(ids), claim_id]).fetchall()
    return {row.id: _destination(row) for row in rows}


def _destination(row: ConfiguredDestination) -> TaskDestination:
    """Return the destination; one that cannot be used fails its own deliveries and says why, the others go on."""
    kind, parse = _KINDS[row.kind]
    try:
        return parse(row._replace(secrets=decrypted(dict(row.secrets or {}), os.environ)))
    except (InvalidDestination, UnreadableSecret) as error:
        return kind(row.id, row.name, broken=error.detail)


def with_bodies(reader: Session, claimed: deque[Delivery], brokers: Collection[int] = ()) -> Iterator[list[Delivery]]:
    """Take the messages a slice at a time, and yield it with headers and payloads; hold no snapshot in between.

    `brokers`: the ids of destinations that need the report of the broker that a message came from.
    """
    ends = _ends_of_slots(claimed)
    while claimed:
        some = _take_slice(claimed)
        with_transport = any(one.destination_id in brokers for one in some)
        rows = reader.execute(_BODIES, [with_transport, [one.message_id for one in some]], binary=True).fetchall()
        bodies = {row[0]: row for row in rows}
        for one in some:
            one.start_before = ends.get((one.destination_id, one.operation_id))
            _set_body(one, bodies[one.message_id])
        yield some


def _ends_of_slots(claimed: Iterable[Delivery]) -> dict[_Spaced, float]:
    """Return where the slots that the claim has reserved end."""
    slots: dict[_Spaced, list[float]] = {}
    rates: dict[_Spaced, float] = {}
    for one in claimed:
        if one.start_at is not None and one.rate_per_second is not None:
            spaced = one.destination_id, one.operation_id
            slots.setdefault(spaced, []).append(one.start_at)
            rates[spaced] = one.rate_per_second
    return {spaced: end_of_slots(min(some), max(some), rates[spaced]) for spaced, some in slots.items()}


def _set_body(one: Delivery, body: tuple[Any, ...]) -> None:
    _, headers, one.payload, one.transport = body
    one.headers = json.loads(headers)
    if one.is_child:
        one.original_address = one.headers.get("_AMQ_ORIG_ADDRESS", one.original_address)
        one.original_queue = one.headers.get("_AMQ_ORIG_QUEUE")


def _take_slice(claimed: deque[Delivery]) -> list[Delivery]:
    some = [claimed.popleft()]
    size = some[0].payload_bytes
    while claimed and len(some) < _SLICE_MESSAGES and size + claimed[0].payload_bytes <= _SLICE_BYTES:
        size += claimed[0].payload_bytes
        some.append(claimed.popleft())
    return some
