"""Settle failures: the policy's verdict on each, applied to all of a batch in one statement."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.domain.verdicts import Verdict, on_failure
from poisonadmin.operations import groups, lanes
from poisonadmin.operations.addresses import AddressRef, ensure_addresses
from poisonadmin.operations.dead_letters import record_moves
from poisonadmin.operations.in_flight import TAKEN
from poisonadmin.operations.ledger import RECORDED
from poisonadmin.queries.policy_book import book

FAILURES_A_TRANSACTION = 2_000


class Answered(NamedTuple):
    """A message in DLNG whose attempt failed, locked."""

    id: int
    attempt_number: int
    failure_count: int
    address: str
    lane_id: int
    address_id: int
    fingerprint: str
    title: str
    error_class: str
    finished_at: datetime
    retry_after_ms: int | None


_ANSWERED = f"""
SELECT answered.* FROM {TAKEN} CROSS JOIN LATERAL (
    SELECT message.id, message.attempt_number, failure_count, address.name, lane_id, address_id, fingerprint, title,
           error_class, finished_at, retry_after_ms
    FROM message
         JOIN attempt ON attempt.message_id = message.id AND attempt.attempt_number = message.attempt_number
         JOIN address ON address.id = message.address_id
    WHERE message.id = taken.message_id AND message.claim_id = taken.claim_id AND state = 'DLNG'
      AND outcome = 'failed'
    FOR UPDATE OF message SKIP LOCKED
) AS answered
WHERE %(claim)s::bigint IS NULL OR taken.claim_id = %(claim)s LIMIT %(limit)s
"""  # noqa: S608  (fragments are constants)

_APPLY = f"""
WITH verdict AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(states)s::text[], %(reasons)s::text[], %(delays)s::bigint[],
                         %(counts)s::int[], %(groups)s::bigint[], %(addresses)s::bigint[], %(lanes)s::bigint[],
                         %(ats)s::timestamptz[])
        AS v(id, state, reason, delay_ms, failure_count, group_id, address_id, lane_id, failed_at)
), before AS (
    SELECT message.id, message.address_id, message.state, message.reason, message.group_id
    FROM message JOIN verdict USING (id)
), changed AS (
    UPDATE message SET state = verdict.state, reason = verdict.reason, state_at = now(),
        due_at = now() + verdict.delay_ms * interval '1 ms', failure_count = verdict.failure_count,
        group_id = verdict.group_id, failed_at = verdict.failed_at, address_id = verdict.address_id,
        expires_at = CASE WHEN verdict.state = 'TBDL' THEN message.expires_at END,
        lane_id = verdict.lane_id,
        original_address_id = CASE WHEN verdict.address_id = message.address_id THEN message.original_address_id
                                   ELSE coalesce(message.original_address_id, message.address_id) END
    FROM verdict JOIN before ON before.id = verdict.id
    WHERE message.id = verdict.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              before.address_id AS was_address_id, before.state AS was_state, before.reason AS was_reason,
              before.group_id AS was_group_id, 'failed' AS event, message.lane_id, message.due_at
), {RECORDED}
SELECT lane_id, min(due_at) FROM changed WHERE state = 'TBDL' GROUP BY lane_id
"""  # noqa: S608  (fragments are constants)

_STOP = """
UPDATE address SET status = 'STOPPED', status_by = 'system', status_message_id = %(message)s, status_at = now(),
                   status_note = 'a failed delivery reached the limit at which this address stops'
WHERE id = %(address)s AND status = 'ON' RETURNING id
"""


def settle_failures(claim_id: int | None = None) -> int:
    """Apply the policy's verdict to the failed messages of one claim, or of all; return how many. One transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_ANSWERED, {"claim": claim_id, "limit": FAILURES_A_TRANSACTION})
        answered = [Answered(*row) for row in cursor.fetchall()]
        if not answered:
            return 0
        verdicts = _judge(answered)
        targets = ensure_addresses(verdict.move_to for verdict in verdicts if verdict.move_to)
        group_ids = groups.ensure(
            cursor, (groups.Seen(a.fingerprint, a.title, a.error_class, a.id, a.finished_at) for a in answered)
        )
        waiting = _apply(cursor, answered, verdicts, targets, group_ids)
        waiting += record_moves(
            cursor, [(a.id, a.address, v) for a, v in zip(answered, verdicts, strict=True) if v.move_to]
        )
        stopped = _stop(cursor, [a for a, v in zip(answered, verdicts, strict=True) if v.stop_address])
        # Lanes come last, and all at once: the order of locks is messages, groups, addresses, lanes.
        lanes.wake(cursor, waiting)
        lanes.reopen(cursor, stopped)
    return len(answered)


def _judge(answered: Sequence[Answered]) -> list[Verdict]:
    policies = book()
    return [
        on_failure(
            policies.resolve(failed.address).policy,
            message_id=failed.id,
            attempt_number=failed.attempt_number,
            failure_count=failed.failure_count,
            address=failed.address,
            retry_after_ms=failed.retry_after_ms,
        )
        for failed in answered
    ]


def _apply(
    cursor: CursorWrapper,
    answered: Sequence[Answered],
    verdicts: Sequence[Verdict],
    targets: dict[str, AddressRef],
    group_ids: dict[str, int],
) -> list[tuple[int, datetime]]:
    """Write the verdicts; return (lane, due_at) of what waits again."""
    places = [
        (targets[verdict.move_to].id, targets[verdict.move_to].lane_id)
        if verdict.move_to
        else (failed.address_id, failed.lane_id)
        for failed, verdict in zip(answered, verdicts, strict=True)
    ]
    cursor.execute(
        _APPLY,
        {
            "ids": [failed.id for failed in answered],
            "states": [str(verdict.state) for verdict in verdicts],
            "reasons": [verdict.reason and str(verdict.reason) for verdict in verdicts],
            "delays": [verdict.delay_ms for verdict in verdicts],
            "counts": [verdict.failure_count for verdict in verdicts],
            "groups": [group_ids[failed.fingerprint] for failed in answered],
            "addresses": [address_id for address_id, _ in places],
            "lanes": [lane_id for _, lane_id in places],
            "ats": [failed.finished_at for failed in answered],
            "actor": "system",
            "note": None,
        },
    )
    waiting: list[tuple[int, datetime]] = cursor.fetchall()
    return waiting


def _stop(cursor: CursorWrapper, failed: Sequence[Answered]) -> list[int]:
    """Stop the addresses of messages whose failure reached that limit; return those that were ON."""
    stopped = []
    for message in sorted(failed, key=lambda one: one.address_id):
        cursor.execute(_STOP, {"message": message.id, "address": message.address_id})
        stopped += [row[0] for row in cursor.fetchall()]
    return stopped
