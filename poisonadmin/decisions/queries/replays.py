"""Reasons against delivering a message again: a newer one was delivered, or it may have been processed already.

The conditions are about `message`, which would go to the address `back`.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from poisonadmin.core.queries.rows import fetch
from poisonadmin.core.queries.sql import Sql, named_sql, raw

# After the message had been sent there was no answer, or none that anybody has seen.
_UNANSWERED = raw("""
 attempt.outcome = 'node_lost'
 OR attempt.outcome IN ('failed', 'crashed')
    AND attempt.error_class IN ('HttpTimeout', 'HttpConnectionReset', 'ConsumerConnectionLost', 'ConfirmLost')
""")
# The ids of those that are (`OVERTAKEN`) are found first, all at once.
IS_NEWER_DELIVERED = raw("message.id = ANY(%(overtaken)s::bigint[])")
# Of `members`, those with a business key that a newer message has which was delivered at `back`. Each key is searched
# for once, from its newest message on.
OVERTAKEN = partial(
    named_sql,
    """
SELECT DISTINCT mine.id FROM (
    SELECT back.id AS address_id, own.name, own.value, min(message.id) AS first_id, array_agg(message.id) AS ids
    FROM {members} JOIN message ON message.id = member.id {target}
         JOIN business_key AS own ON own.message_id = message.id
    GROUP BY 1, 2, 3
) AS one CROSS JOIN LATERAL (
    SELECT other.message_id AS id FROM business_key AS other
    WHERE other.value = one.value AND other.name = one.name AND other.message_id > one.first_id AND (
        EXISTS (SELECT FROM message AS newer
                WHERE newer.id = other.message_id AND newer.state = 'DLVD' AND newer.address_id = one.address_id)
        OR EXISTS (SELECT FROM archived_message AS newer
                   WHERE newer.id = other.message_id AND newer.state = 'DLVD' AND newer.address_id = one.address_id))
    ORDER BY other.value DESC, other.name DESC, other.message_id DESC LIMIT 1
) AS newest CROSS JOIN LATERAL unnest(one.ids) AS mine (id) WHERE mine.id < newest.id
""",
)
MAY_BE_PROCESSED = named_sql(
    """(EXISTS (SELECT FROM attempt WHERE attempt.message_id = message.id AND ({unanswered}))
      OR EXISTS (SELECT FROM confirmation WHERE confirmation.message_id = message.id AND confirmed_at IS NOT NULL)
      OR EXISTS (SELECT FROM history WHERE history.message_id = message.id AND event = 'outcome_lost'))""",
    unanswered=_UNANSWERED,
)


@dataclass(frozen=True)
class Evidence:
    """A reason to believe that a message was processed: `confirmed`, `outcome_lost`, or how an attempt ended."""

    attempt_number: int
    at: datetime
    why: str


def evidence(message_id: int) -> list[Evidence]:
    """Return why a message may have been processed already, oldest first; empty where nothing says so."""
    return fetch(
        Evidence,
        Sql(
            """SELECT attempt_number, finished_at AS at, coalesce(error_class, outcome) AS why
               FROM attempt WHERE message_id = {id} AND ({unanswered})
            UNION ALL SELECT attempt_number, confirmed_at, 'confirmed'
               FROM confirmation WHERE message_id = {id} AND confirmed_at IS NOT NULL
            UNION ALL SELECT attempt_number, at, 'outcome_lost'
               FROM history WHERE message_id = {id} AND event = 'outcome_lost'
            ORDER BY 2, 1 LIMIT 50""",
            id=message_id,
            unanswered=_UNANSWERED,
        ),
    )
