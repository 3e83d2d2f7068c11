"""Rows of the failure log for the results of handlers, and for the crashes of their sandboxes."""

import re
import signal
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, matches, validate_address
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.delivery.domain.journal import Kind, Result, Why
from poisonadmin.groups.domain.failures import Failure
from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcomes import Outcome
from workers.delivery.deliveries import (
    MAX_MESSAGE_CHARS,
    Delivery,
    RunIdentity,
    attempt_row,
    end_conversation,
    fail,
    roll_back,
    storable,
)
from workers.delivery.http.answers import INVALID_ANSWER, MAX_CODE
from workers.delivery.run import Run, instant

KILLED = "HandlerKilled"
SEGFAULT = "HandlerSegfault"
ABORTED = "HandlerAborted"
EXITED = "HandlerExited"
OUT_OF_MEMORY = "HandlerOutOfMemory"
CPU_LIMIT = "HandlerCpuLimit"
TIME_LIMIT = "HandlerTimeLimit"
JOURNAL_DAMAGED = "HandlerJournalDamaged"
NOT_LOADED = "HandlerNotLoaded"
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
# A line of faulthandler's: File "/handlers/orders.py", line 7 in handle
_FRAME = re.compile(rb'File "([^"\n]{1,1000})", line \d+ in ([^\s]{1,200})')


@dataclass(frozen=True)
class SandboxEnd:
    """The end of a sandbox. `status`: its exit code, or minus the signal; `limit`: the limit for which we ended it."""

    status: int
    why: Why
    exit_code: int
    limit: str | None
    output: bytes

    @property
    def exit_status(self) -> int | None:
        """The exit status that the handler chose; None where the sandbox ended itself."""
        if self.why is Why.SYSTEM_EXIT:
            return self.exit_code
        return None if self.why in {Why.OUT_OF_MEMORY, Why.INTERRUPTED, Why.JOURNAL_DAMAGED} else self.status


def crash_of(end: SandboxEnd, *, callable_name: str, roots: tuple[str, ...], limits: dict[str, str]) -> Failure:
    """Return the failure of the message in whose turn the sandbox crashed; `limits` puts each limit in words."""
    kind, words = _described(end, limits)
    frames = _frames(end.output, roots) or (callable_name,)
    return Failure(kind, f"The handler {words}.", frames=frames)


def _described(end: SandboxEnd, limits: dict[str, str]) -> tuple[str, str]:
    if end.limit is not None:
        return end.limit, f"was ended: {limits[end.limit]}"
    if end.why is Why.OUT_OF_MEMORY:
        return OUT_OF_MEMORY, f"ran out of memory: {limits[OUT_OF_MEMORY]}"
    if end.why is Why.JOURNAL_DAMAGED:
        return JOURNAL_DAMAGED, "changed its own journal"
    if end.why is Why.SYSTEM_EXIT:
        return EXITED, f"called sys.exit({end.exit_code})"
    if end.why is Why.INTERRUPTED:
        return EXITED, "raised KeyboardInterrupt, or another exception that ends a program"
    if end.status >= 0:
        return EXITED, f"ended its process with exit code {end.status}"
    number = -end.status
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number in _FAULTS:
        return SEGFAULT, f"was killed by {name}"
    if number == signal.SIGABRT:
        return ABORTED, f"aborted ({name})"
    return KILLED, f"was killed by {name}"


def _frames(output: bytes, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the application's frames that faulthandler wrote down, innermost first."""
    found = []
    for path, function in _FRAME.findall(output):
        text = path.decode("utf-8", "replace")
        root = next((root for root in roots if text.startswith(f"{root}/")), None)
        if root is not None:
            found.append(f"{text[len(root) + 1 :]}:{function.decode('utf-8', 'replace')}")
    return tuple(found[:20])


def result_row(run: RunIdentity, delivery: Delivery, result: Result, *, owner: str) -> AttemptRecord:
    """Return the row of a message that the handler answered, by returning or by raising.

    `owner`: the pattern of the addresses that its destination may move messages to.
    """
    details = result.details
    times = (instant(result.started + run.offset), instant(result.finished + run.offset))
    output = _text(details, "output").encode("latin-1", "replace") or None
    attempt = attempt_row(run, delivery, Outcome[result.kind.name], times, output=output)
    if result.kind is Kind.FAILED:
        return fail(attempt, failure_of(details))
    if result.kind is Kind.MOVED:
        try:
            attempt.move_to = _target(details, delivery, owner)
        except PoisonAdminError as error:
            return fail(attempt, Failure(INVALID_ANSWER, f"MoveTo names an address that cannot be: {error.detail}"))
    why = storable(_text(details, "why"), MAX_MESSAGE_CHARS) or None
    if result.kind is Kind.ROLLED_BACK:
        return roll_back(attempt, why)
    code = details.get("code")
    return end_conversation(attempt, code if isinstance(code, int) and 0 <= code <= MAX_CODE else None, why)


def _target(details: dict[str, Any], delivery: Delivery, owner: str) -> str:
    address = validate_address(_text(details, "address"))
    if not matches(owner, address):
        raise InvalidAddress(f"{address} is not among the addresses of this destination, {owner}.")
    if address == delivery.address:
        raise InvalidAddress(f"the message is on {address} already.")
    return address


def crash_row(run: Run, delivery: Delivery, failure: Failure, *, end: SandboxEnd, began: float) -> AttemptRecord:
    """Return the row of the message in whose turn the sandbox crashed; `began` is monotonic."""
    times = (instant(began + run.offset), instant(run.now()))
    attempt = attempt_row(run, delivery, Outcome.CRASHED, times, exit_status=end.exit_status, output=end.output or None)
    return fail(attempt, failure, Outcome.CRASHED)


def failure_of(details: dict[str, Any]) -> Failure:
    """Return the failure that a sandbox reports."""
    frames = details.get("frames")
    return Failure(
        _text(details, "class") or "UnknownFailure",
        _text(details, "message"),
        cause_class=_text(details, "cause") or None,
        frames=tuple(str(frame) for frame in frames) if isinstance(frames, list) else (),
        stack=_text(details, "stack"),
    )


def failed_unbegun(run: Run, delivery: Delivery, failure: Failure) -> AttemptRecord:
    """Return the row of a message that could not be handled because the handler cannot be loaded."""
    now = instant(run.now())
    return fail(attempt_row(run, delivery, Outcome.FAILED, (now, now)), failure)


def _text(details: dict[str, Any], field: str) -> str:
    value = details.get(field)
    return value if isinstance(value, str) else ""
