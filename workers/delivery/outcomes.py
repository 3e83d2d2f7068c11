"""An answer as the row that `settle` reads and an administrator sees."""

from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.delivery.domain.retry_schedule import retry_after_ms
from poisonadmin.destinations.domain.http_config import CONNECTION_LOST
from poisonadmin.messages.domain.failures import Failure, fingerprint, title
from workers.delivery.deliveries import Delivery, OutcomeRow
from workers.delivery.http.exchange import HttpAnswer
from workers.delivery.http.failures import HTTP_CONNECTION_RESET

CONSUMER_CONNECTION_LOST = "ConsumerConnectionLost"

MAX_CLASS_CHARS = 255
MAX_MESSAGE_CHARS = 4096
MAX_STACK_CHARS = 64 * 1024
MAX_TITLE_CHARS = 300


def outcome_row(
    delivery: Delivery,
    answer: HttpAnswer,
    *,
    claim_id: int | None,
    shard: int | None,
    times: tuple[datetime, datetime],
    crash_on: str | None = None,
) -> OutcomeRow:
    """Return the attempt's row; `times` are when it was begun and when it ended.

    `crash_on` "connection_lost": the request was sent, the connection is gone, there is no answer: that is a crash.
    """
    failure = answer.failure
    outcome = Outcome.FAILED
    if crash_on == CONNECTION_LOST and failure is not None and failure.exception_class == HTTP_CONNECTION_RESET:
        failure = replace(failure, exception_class=CONSUMER_CONNECTION_LOST)
        outcome = Outcome.CRASHED
    if failure is None:
        return OutcomeRow(
            delivery.message_id,
            delivery.attempt_number,
            claim_id,
            shard,
            delivery.destination_id,
            times[0],
            times[1],
            Outcome.DELIVERED,
            status_code=answer.status,
        )
    return failed_row(
        delivery,
        failure,
        claim_id=claim_id,
        shard=shard,
        times=times,
        outcome=outcome,
        status_code=answer.status,
        retry_after_ms=None if answer.retry_after is None else retry_after_ms(answer.retry_after, now=times[1]),
        response=answer.body or None,
    )


def failed_row(
    delivery: Delivery,
    failure: Failure,
    *,
    claim_id: int | None,
    shard: int | None,
    times: tuple[datetime, datetime],
    outcome: Outcome = Outcome.FAILED,
    **more: Any,
) -> OutcomeRow:
    """Return the row of an attempt that came to a failure, or a crash; `more` are further columns."""
    mark, line = group_of(failure)
    return OutcomeRow(
        message_id=delivery.message_id,
        attempt_number=delivery.attempt_number,
        claim_id=claim_id,
        shard=shard,
        destination_id=delivery.destination_id,
        started_at=times[0],
        finished_at=times[1],
        outcome=outcome,
        error_class=storable(failure.exception_class, MAX_CLASS_CHARS),
        cause_class=None if failure.cause_class is None else storable(failure.cause_class, MAX_CLASS_CHARS),
        error_message=storable(failure.message, MAX_MESSAGE_CHARS),
        stack=storable(failure.stack, MAX_STACK_CHARS) or None,
        fingerprint=mark,
        title=storable(line, MAX_TITLE_CHARS),
        **more,
    )


def ruled_row(delivery: Delivery, *, claim_id: int | None, shard: int | None, finished_at: datetime) -> OutcomeRow:
    """Return the row of a message that a content rule keeps from being delivered."""
    ruling = delivery.ruling
    assert ruling is not None
    return OutcomeRow(
        message_id=delivery.message_id,
        attempt_number=delivery.attempt_number,
        claim_id=claim_id,
        shard=shard,
        destination_id=delivery.destination_id,
        started_at=None,
        finished_at=finished_at,
        outcome=Outcome.RULED,
        error_message=storable(ruling.note, MAX_MESSAGE_CHARS),
        move_to=ruling.address,
        rule_id=ruling.rule_id,
        ruling=ruling.action,
    )


@lru_cache(maxsize=4096)
def group_of(failure: Failure) -> tuple[str, str]:
    """Return fingerprint and title; a destination that is down fails with the same words a thousand times."""
    return fingerprint(failure), title(failure)


def storable(text: str, max_chars: int) -> str:
    """Return `text` cut, and without what PostgreSQL cannot keep: NUL and lone surrogates.

    >>> storable("a\\0b\\udcff", 10)
    'a�b?'
    """
    return text[:max_chars].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
