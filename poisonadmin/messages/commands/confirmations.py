"""Confirmations of messages that a destination took: awaited ones, and those of consumers.

A broker's confirm says that the broker has it. Whether the consumer behind it has processed it, only that one knows.
"""

from django.db import connection, transaction

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.messages.domain.envelope_fields import storable
from poisonadmin.messages.domain.states import State, TransitionNotAllowed

# Needs `changed`. Attempts are read only where some destination has its deliveries confirmed.
# The consumer may have been faster than us.
AWAITED = """
    awaited AS (
        INSERT INTO confirmation (message_id, attempt_number, destination_id, delivered_at, confirm_by)
        SELECT changed.id, changed.attempt_number, destination.id, finished_at,
               finished_at + (destination.config ->> 'confirm_within_ms')::bigint * interval '1 ms'
        FROM changed JOIN attempt ON attempt.message_id = changed.id AND attempt.attempt_number = changed.attempt_number
             JOIN destination ON destination.id = attempt.destination_id
             AND destination.config ->> 'confirm_within_ms' IS NOT NULL
        WHERE (SELECT EXISTS (SELECT FROM destination WHERE config ->> 'confirm_within_ms' IS NOT NULL))
        ON CONFLICT (message_id) DO UPDATE SET
            attempt_number = excluded.attempt_number, destination_id = excluded.destination_id,
            delivered_at = excluded.delivered_at, confirm_by = excluded.confirm_by,
            confirmed_at = CASE WHEN confirmation.attempt_number = excluded.attempt_number
                                THEN confirmation.confirmed_at END,
            confirmed_by = CASE WHEN confirmation.attempt_number = excluded.attempt_number
                                THEN confirmation.confirmed_by END,
            note = CASE WHEN confirmation.attempt_number = excluded.attempt_number THEN confirmation.note END
    )
"""

# Two statements, as for decisions: what the lock waited for may have changed what a join has read.
_LOCK = "SELECT FROM message WHERE id = %(id)s FOR UPDATE"
_READ = """
SELECT address.name, state, attempt_number FROM message JOIN address ON address.id = address_id
WHERE message.id = %(id)s
"""
# The first word counts.
_CONFIRM = """
INSERT INTO confirmation (message_id, attempt_number, destination_id, delivered_at, confirmed_at, confirmed_by, note)
SELECT message.id, message.attempt_number, coalesce(attempt.destination_id, address.destination_id, 0),
       coalesce(attempt.finished_at, now()), now(), %(by)s, %(note)s
FROM message JOIN address ON address.id = message.address_id
     LEFT JOIN attempt ON attempt.message_id = message.id AND attempt.attempt_number = message.attempt_number
WHERE message.id = %(id)s
ON CONFLICT (message_id) DO UPDATE SET
    attempt_number = excluded.attempt_number, destination_id = excluded.destination_id,
    delivered_at = excluded.delivered_at, confirmed_at = excluded.confirmed_at, confirmed_by = excluded.confirmed_by,
    confirm_by = CASE WHEN confirmation.attempt_number = excluded.attempt_number THEN confirmation.confirm_by END,
    note = excluded.note
WHERE confirmation.confirmed_at IS NULL OR confirmation.attempt_number <> excluded.attempt_number
"""


_IN_LEDGER = """
UPDATE operation_result AS result SET outcome = 'confirmed', at = now() FROM message
WHERE message.id = %(id)s AND result.message_id = message.id AND result.operation_id = message.operation_id
  AND outcome = 'delivered'
"""


class NotDelivered(TransitionNotAllowed):
    """Raised when a message is confirmed that is not delivered, or not by this attempt; `state` is the one it is in."""

    def __init__(self, state: State, detail: str) -> None:
        PoisonAdminError.__init__(self, detail)
        self.state = state


def confirm(message_id: int, *, principal: Principal, note: str | None = None, attempt: int | None = None) -> None:
    """Write down that the consumer has processed the message; again changes nothing.

    In DLNG too: a consumer may answer before the delivery to its broker is settled. `attempt`: the delivery that it
    has processed; of one that is under way only the word on itself counts.
    Errors: `NotAllowed`, `NotFound`, `NotDelivered`.
    """
    principal.require(Permission.INGEST)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, {"id": message_id})
        cursor.execute(_READ, {"id": message_id})
        found = cursor.fetchone()
        if found is None or not principal.sees(found[0]):
            raise NotFound(f"There is no message {message_id}.")
        _, state, current = found
        if state not in (State.DLVD, State.DLNG):
            raise NotDelivered(State(state), f"The message is {state}; only what is delivered can be confirmed.")
        if attempt is not None and (attempt > current or (state == State.DLNG and attempt != current)):
            raise NotDelivered(State(state), f"The message is {state} by attempt {current}, not {attempt}.")
        stored = None if note is None else storable(note)
        cursor.execute(_CONFIRM, {"id": message_id, "by": principal.name[:255], "note": stored})
        cursor.execute(_IN_LEDGER, {"id": message_id})
