"""An answer as the row that `settle` reads and an administrator sees."""

from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from poisonadmin.delivery.domain.attempt import AttemptRecord
from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.delivery.domain.retry_schedule import retry_after_ms
from poisonadmin.destinations.domain.http_config import CONNECTION_LOST
from poisonadmin.messages.domain.failures import Failure, fingerprint, title
from workers.delivery.deliveries import Delivery
from workers.delivery.http.answers import ConsumerOutcome
from workers.delivery.http.exchange import HttpAnswer
from workers.delivery.http.failures import HTTP_CONNECTION_RESET

CONSUMER_CONNECTION_LOST = "ConsumerConnectionLost"
ROLLED_BACK = "RolledBack"

MAX_CLASS_CHARS = 255
MAX_MESSAGE_CHARS = 4096
MAX_STACK_CHARS = 64 * 1024
MAX_TITLE_CHARS = 300
MAX_VERSION_CHARS = 100
Times = tuple[datetime | None, datetime]


class RunIdentity(Protocol):
    """Where and by which clock something was delivered: a run, or what is left of one."""

    @property
    def claim_id(self) -> int | None: ...
    @property
    def shard(self) -> int | None: ...
    @property
    def offset(self) -> float: ...


def attempt_row(run: RunIdentity, delivery: Delivery, outcome: Outcome, times: Times, **columns: Any) -> AttemptRecord:
    """Return the row of an attempt; `times` are when it was begun and when it ended."""
    return AttemptRecord(
        message_id=delivery.message_id,
        attempt_number=delivery.attempt_number,
        claim_id=run.claim_id,
        shard=run.shard,
        destination_id=delivery.destination_id,
        started_at=times[0],
        finished_at=times[1],
        outcome=outcome,
        **columns,
    )


def outcome_row(
    run: RunIdentity, delivery: Delivery, answer: HttpAnswer, *, times: Times, crash_on: str | None = None
) -> AttemptRecord:
    """Return the row of an attempt that was answered, or failed on its way.

    `crash_on` "connection_lost": the request was sent, the connection is gone, there is no answer: that is a crash.
    """
    failure = answer.failure
    if answer.outcome is not None:
        return _wanted_row(run, delivery, answer, answer.outcome, times)
    if failure is None:
        return attempt_row(run, delivery, Outcome.DELIVERED, times, status_code=answer.status)
    outcome = Outcome.FAILED
    if crash_on == CONNECTION_LOST and failure.exception_class == HTTP_CONNECTION_RESET:
        failure = replace(failure, exception_class=CONSUMER_CONNECTION_LOST)
        outcome = Outcome.CRASHED
    return failed_row(
        run,
        delivery,
        failure,
        times=times,
        outcome=outcome,
        status_code=answer.status,
        retry_after_ms=None if answer.retry_after is None else retry_after_ms(answer.retry_after, now=times[1]),
        response=answer.body or None,
        consumer_version=_version_of(answer),
    )


def _wanted_row(
    run: RunIdentity, delivery: Delivery, answer: HttpAnswer, wanted: ConsumerOutcome, times: Times
) -> AttemptRecord:
    more: dict[str, Any] = {
        "status_code": answer.status,
        "response": answer.body or None,
        "consumer_version": _version_of(answer),
    }
    why = None if wanted.why is None else storable(wanted.why, MAX_MESSAGE_CHARS)
    if wanted.outcome is Outcome.ROLLED_BACK:
        return rolled_back_row(run, delivery, why, times=times, **more)
    more |= {"move_to": wanted.address, "error_code": wanted.error_code}
    return attempt_row(run, delivery, wanted.outcome, times, error_message=why, **more)


def failed_row(
    run: RunIdentity,
    delivery: Delivery,
    failure: Failure,
    *,
    times: Times,
    outcome: Outcome = Outcome.FAILED,
    **more: Any,
) -> AttemptRecord:
    """Return the row of an attempt that failed, or crashed; `more` are further columns."""
    mark, line = _group_of(failure)
    return attempt_row(
        run,
        delivery,
        outcome,
        times,
        error_class=storable(failure.exception_class, MAX_CLASS_CHARS),
        cause_class=None if failure.cause_class is None else storable(failure.cause_class, MAX_CLASS_CHARS),
        error_message=storable(failure.message, MAX_MESSAGE_CHARS),
        stack=storable(failure.stack, MAX_STACK_CHARS) or None,
        fingerprint=mark,
        title=storable(line, MAX_TITLE_CHARS),
        **more,
    )


def rolled_back_row(
    run: RunIdentity, delivery: Delivery, why: str | None, *, times: Times, **more: Any
) -> AttemptRecord:
    """Return the row of a message that its consumer rolled back; a policy may count that as a failure (ruling R3)."""
    failure = Failure(ROLLED_BACK, why or "The consumer rolled the message back.")
    return failed_row(run, delivery, failure, times=times, outcome=Outcome.ROLLED_BACK, **more)


def ruled_row(run: RunIdentity, delivery: Delivery, *, finished_at: datetime) -> AttemptRecord:
    """Return the row of a message that a content rule keeps from being delivered."""
    ruling = delivery.ruling
    assert ruling is not None
    return attempt_row(
        run,
        delivery,
        Outcome.RULED,
        (None, finished_at),
        error_message=storable(ruling.note, MAX_MESSAGE_CHARS),
        move_to=ruling.address,
        rule_id=ruling.rule_id,
        ruling=ruling.action,
    )


def _version_of(answer: HttpAnswer) -> str | None:
    return None if answer.consumer_version is None else storable(answer.consumer_version, MAX_VERSION_CHARS)


@lru_cache(maxsize=4096)
def _group_of(failure: Failure) -> tuple[str, str]:
    """Return fingerprint and title; a destination that is down fails with the same words a thousand times."""
    return fingerprint(failure), title(failure)


def storable(text: str, max_chars: int) -> str:
    """Return `text` cut, and without what PostgreSQL cannot keep: NUL and lone surrogates.

    >>> storable("a\\0b\\udcff", 10)
    'a�b?'
    """
    return text[:max_chars].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
