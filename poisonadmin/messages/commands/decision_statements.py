"""The statements behind decisions: lock the messages, change the chosen ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.transitions import RECORDED
from poisonadmin.messages.domain.states import Event


class Locked(NamedTuple):
    """A message that nobody else changes until the transaction ends. `home`: the address an approval puts it on."""

    id: int
    address: str
    state: str
    attempt_number: int
    home: str
    home_delivers: bool
    home_takes_its_size: bool
    home_id: int
    candidate: bool


@dataclass(frozen=True)
class Suspicions:
    """What an approval makes of candidates: some are tried alone again, some are cleared, as their policies say."""

    alone: tuple[int, ...] = ()
    cleared: tuple[int, ...] = ()


# Two statements: what the lock waited for may have moved the message, and a join in the locking statement would then
# lose the row.
_LOCK = "SELECT FROM message WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE"
_READ = """
SELECT message.id, address.name, state, attempt_number, home.name, home.destination_id IS NOT NULL,
       envelope.payload_bytes <= home.max_payload_bytes, home.id, candidate
FROM message JOIN address ON address.id = message.address_id JOIN envelope ON envelope.id = message.id
     JOIN address AS home ON home.id = coalesce(message.original_address_id, message.address_id)
WHERE message.id = ANY(%(ids)s) ORDER BY message.id
"""

# What each event writes; the columns it does not name stay.
_SETS: dict[Event, str] = {
    Event.APPROVED: """state = 'TBDL', reason = NULL, due_at = now(), failure_count = 0, address_id = home_id,
        lane_id = home_lane_id, original_address_id = NULL,
        candidate = message.candidate AND NOT message.id = ANY(%(cleared)s),
        crash_count = CASE WHEN message.id = ANY(%(cleared)s) THEN 0 ELSE message.crash_count END,
        expires_at = (SELECT envelope.expires_at FROM envelope
                      WHERE envelope.id = message.id AND envelope.expires_at > now())""",
    Event.MARKED_FAIL: "state = 'FAIL', reason = 'failed_by_admin'",
    Event.QUARANTINED: "state = 'NDLV', reason = 'quarantined', due_at = NULL, expires_at = NULL",
    Event.RESTORED: """state = 'NDLV', reason = coalesce((SELECT history.reason FROM history
        WHERE history.message_id = message.id AND to_state = 'NDLV' ORDER BY seq DESC LIMIT 1), message.reason)""",
    Event.DELIVERED_NOW: "due_at = now()",
    Event.POSTPONED: "due_at = GREATEST(%(until)s, now())",
}

_APPLY = """
WITH chosen AS (
    SELECT message.id, message.address_id AS was_address_id, state AS was_state, reason AS was_reason,
           group_id AS was_group_id, home.id AS home_id, home_lane.id AS home_lane_id,
           address.name AS from_name, home.name AS home_name
    FROM message JOIN address ON address.id = message.address_id
         JOIN address AS home ON home.id = coalesce(message.original_address_id, message.address_id)
         JOIN lane AS home_lane ON home_lane.address_id = home.id AND home_lane.conversation_id IS NULL
              AND home_lane.is_isolation = (message.id = ANY(%(alone)s))
    WHERE message.id = ANY(%(ids)s)
), changed AS (
    UPDATE message SET state_at = now(), {sets} FROM chosen WHERE message.id = chosen.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              was_address_id, was_state, was_reason, was_group_id, %(event)s AS event, message.lane_id, message.due_at,
              from_name, home_name
), hops AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by)
    SELECT id, from_name, home_name, %(event)s, %(actor)s FROM changed WHERE address_id <> was_address_id
), {recorded}
SELECT lane_id, min(due_at) FROM changed WHERE state = 'TBDL' GROUP BY lane_id
"""


def lock(ids: Sequence[int]) -> dict[int, Locked]:
    """Lock the messages in the order of their ids and return those that exist. Call inside a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, {"ids": list(ids)})
        cursor.execute(_READ, {"ids": list(ids)})
        return {row[0]: Locked(*row) for row in cursor.fetchall()}


def apply(
    ids: Sequence[int],
    event: Event,
    *,
    actor: str,
    note: str,
    until: datetime | None = None,
    suspicions: Suspicions = Suspicions(),
) -> None:
    """Write what `event` does to messages that are locked and known to be in a state in which it is legal."""
    if not ids:
        return
    statement = _APPLY.format(sets=_SETS[event], recorded=RECORDED)
    with connection.cursor() as cursor:
        cursor.execute(
            statement,
            {
                "ids": list(ids),
                "event": str(event),
                "actor": actor,
                "note": note,
                "until": until,
                "alone": list(suspicions.alone),
                "cleared": list(suspicions.cleared),
            },
        )
        schedule.schedule(cursor, cursor.fetchall())
