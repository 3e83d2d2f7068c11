"""Messages as the child of a sandbox reads them from its socket."""

import json
import marshal
import struct

from workers.delivery.deliveries import Delivery

HEAD = struct.Struct("=IqI")  # bytes of the rest, message, attempt; the child reads the same


def frame_of(delivery: Delivery) -> bytes:
    """Return a message as the child reads it: the head says whose it is, also where there is no room for the rest."""
    fields = (
        delivery.payload,
        delivery.message_id,
        delivery.producer_message_id,
        delivery.address,
        delivery.attempt_number,
        delivery.content_type,
        delivery.conversation_id,
        delivery.bookmark,
        delivery.delivery_count,
        delivery.is_redelivered,
        delivery.original_address,
    )
    body = marshal.dumps((fields, json.dumps(delivery.headers).encode()))
    return HEAD.pack(len(body), delivery.message_id, delivery.attempt_number) + body
