"""What a handler's result, or its sandbox's death, is as a row of the failure log."""

from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, matches, validate_address
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.delivery.domain.attempt import AttemptRecord
from poisonadmin.delivery.domain.journal import Kind, Result
from poisonadmin.delivery.domain.outcome import Outcome
from poisonadmin.messages.domain.failures import Failure
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.sandbox.end import SandboxEnd
from workers.delivery.http.answers import MAX_CODE
from workers.delivery.http.exchange import INVALID_ANSWER
from workers.delivery.outcomes import MAX_MESSAGE_CHARS, RunIdentity, attempt_row, failed_row, rolled_back_row, storable
from workers.delivery.run import Run, instant


def result_row(run: RunIdentity, delivery: Delivery, result: Result, *, owner: str) -> AttemptRecord:
    """Return the row of a message that the handler answered, by returning or by raising.

    `owner`: the pattern of the addresses that its destination may move messages to.
    """
    told = result.details
    times = (instant(result.started + run.offset), instant(result.finished + run.offset))
    output = _text(told, "output").encode("latin-1", "replace") or None
    if result.kind is Kind.FAILED:
        return failed_row(run, delivery, failure_of(told), times=times, output=output)
    move_to = None
    if result.kind is Kind.MOVED:
        try:
            move_to = _target(told, delivery, owner)
        except PoisonAdminError as error:
            wrong = Failure(INVALID_ANSWER, f"MoveTo names an address that cannot be: {error.detail}")
            return failed_row(run, delivery, wrong, times=times, output=output)
    why = storable(_text(told, "why"), MAX_MESSAGE_CHARS) or None
    if result.kind is Kind.ROLLED_BACK:
        return rolled_back_row(run, delivery, why, times=times, output=output)
    code = told.get("code")
    return attempt_row(
        run,
        delivery,
        Outcome[result.kind.name],
        times,
        error_message=why,
        output=output,
        move_to=move_to,
        error_code=code if isinstance(code, int) and 0 <= code <= MAX_CODE else None,
    )


def _target(told: dict[str, Any], delivery: Delivery, owner: str) -> str:
    address = validate_address(_text(told, "address"))
    if not matches(owner, address):
        raise InvalidAddress(f"{address} is not among the addresses of this destination, {owner}.")
    if address == delivery.address:
        raise InvalidAddress(f"the message is on {address} already.")
    return address


def crash_row(run: Run, delivery: Delivery, failure: Failure, *, death: SandboxEnd, began: float) -> AttemptRecord:
    """Return the row of the message in whose turn the sandbox died; `began` is monotonic."""
    times = (instant(began + run.offset), instant(run.now()))
    how = {"exit_status": death.exit_status, "output": death.output or None}
    return failed_row(run, delivery, failure, times=times, outcome=Outcome.CRASHED, **how)


def suspected_row(run: Run, delivery: Delivery, failure: Failure, of: Delivery) -> AttemptRecord:
    """Return the row of a message that was in delivery when another one crashed (SEMANTICS SAP-8)."""
    words = f"It was in delivery when message {of.message_id} crashed: {failure.message}"
    now = instant(run.now())
    suspicion = Failure("HandlerSuspected", words, frames=failure.frames)
    return failed_row(run, delivery, suspicion, times=(now, now), outcome=Outcome.SUSPECTED)


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


def failed_unbegun(run: Run, delivery: Delivery, failure: Failure) -> AttemptRecord:
    """Return the row of a message that could not be handled because the handler cannot be loaded."""
    now = instant(run.now())
    return failed_row(run, delivery, failure, times=(now, now))


def _text(told: dict[str, Any], field: str) -> str:
    value = told.get(field)
    return value if isinstance(value, str) else ""
