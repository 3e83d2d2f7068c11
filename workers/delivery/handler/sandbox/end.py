"""The ends of sandboxes, as failures of the messages in whose turn they crashed."""

import re
import signal
from dataclasses import dataclass

from poisonadmin.delivery.domain.journal import Why
from poisonadmin.groups.domain.failures import Failure

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
