"""What a handler's result, or its sandbox's death, is as a row of the failure log."""

from datetime import datetime
from typing import Any, Protocol

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.delivery.domain.journal import Kind, Result
from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.messages.domain.failures import Failure
from workers.delivery.deliveries import Delivery, OutcomeRow
from workers.delivery.handler.sandbox.crashes import SandboxEnd
from workers.delivery.outcomes import MAX_MESSAGE_CHARS, failed_row, storable
from workers.delivery.run import Run, instant


class RunIdentity(Protocol):
    """Where and by which clock something was delivered: a run, or what is left of one."""

    @property
    def claim_id(self) -> int | None: ...
    @property
    def shard(self) -> int | None: ...
    @property
    def offset(self) -> float: ...


INVALID_ANSWER = "InvalidAnswer"
_ANSWERS = {
    Kind.DELIVERED: Outcome.DELIVERED,
    Kind.DISCARDED: Outcome.DISCARDED,
    Kind.MOVED: Outcome.MOVED,
    Kind.ROLLED_BACK: Outcome.ROLLED_BACK,
    Kind.CONVERSATION_ENDED: Outcome.CONVERSATION_ENDED,
}


def result_row(run: RunIdentity, delivery: Delivery, result: Result) -> OutcomeRow:
    """Return the row of a message that the handler answered, by returning or by raising."""
    told = result.details
    times = (instant(result.started + run.offset), instant(result.finished + run.offset))
    output = _text(told, "output").encode("latin-1", "replace") or None
    if result.kind is Kind.FAILED:
        return failed_row(
            delivery, failure_of(told), claim_id=run.claim_id, shard=run.shard, times=times, output=output
        )
    move_to = None
    if result.kind is Kind.MOVED:
        try:
            move_to = _target(told, delivery)
        except PoisonAdminError as error:
            wrong = Failure(INVALID_ANSWER, f"MoveTo names an address that cannot be: {error.detail}")
            return failed_row(delivery, wrong, claim_id=run.claim_id, shard=run.shard, times=times, output=output)
    return OutcomeRow(
        message_id=delivery.message_id,
        attempt_number=delivery.attempt_number,
        claim_id=run.claim_id,
        shard=run.shard,
        destination_id=delivery.destination_id,
        started_at=times[0],
        finished_at=times[1],
        outcome=_ANSWERS[result.kind],
        error_message=storable(_text(told, "why"), MAX_MESSAGE_CHARS) or None,
        output=output,
        move_to=move_to,
    )


def _target(told: dict[str, Any], delivery: Delivery) -> str:
    address = validate_address(_text(told, "address"))
    if address == delivery.address:
        raise InvalidAddress(f"the message is on {address} already.")
    return address


def crash_row(run: Run, delivery: Delivery, failure: Failure, *, death: SandboxEnd, began: float) -> OutcomeRow:
    """Return the row of the message in whose turn the sandbox died; `began` is monotonic."""
    return failed_row(
        delivery,
        failure,
        claim_id=run.claim_id,
        shard=run.shard,
        times=(instant(began + run.offset), instant(run.now())),
        outcome=Outcome.CRASHED,
        exit_status=death.exit_status,
        output=death.output or None,
    )


def suspected_row(run: Run, delivery: Delivery, failure: Failure, of: Delivery) -> OutcomeRow:
    """Return the row of a message that was in delivery when another one crashed (SEMANTICS SAP-8)."""
    words = f"It was in delivery when message {of.message_id} crashed: {failure.message}"
    now = instant(run.now())
    suspicion = Failure("HandlerSuspected", words, frames=failure.frames)
    return failed_row(
        delivery, suspicion, claim_id=run.claim_id, shard=run.shard, times=(now, now), outcome=Outcome.SUSPECTED
    )


def failure_of(told: dict[str, Any]) -> Failure:
    """Return the failure that a sandbox tells of."""
    frames = told.get("frames")
    return Failure(
        _text(told, "class") or "UnknownFailure",
        _text(told, "message"),
        cause_class=_text(told, "cause") or None,
        frames=tuple(str(frame) for frame in frames) if isinstance(frames, list) else (),
        stack=_text(told, "stack"),
    )


def failed_unbegun(run: Run, delivery: Delivery, failure: Failure) -> OutcomeRow:
    """Return the row of a message that could not be handled because the handler cannot be loaded."""
    now: datetime = instant(run.now())
    return failed_row(delivery, failure, claim_id=run.claim_id, shard=run.shard, times=(now, now))


def _text(told: dict[str, Any], field: str) -> str:
    value = told.get(field)
    return value if isinstance(value, str) else ""
