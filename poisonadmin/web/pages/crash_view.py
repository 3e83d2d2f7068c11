"""Crashes in words: on a tag, and in a sentence of the history."""

from dataclasses import dataclass
from typing import Protocol

from poisonadmin.messages.domain.outcome import Outcome


class CrashedAttempt(Protocol):
    """An attempt that ended with a crash."""

    @property
    def outcome(self) -> str: ...
    @property
    def error_class(self) -> str | None: ...
    @property
    def exit_status(self) -> int | None: ...
    @property
    def signal(self) -> str | None: ...


@dataclass(frozen=True)
class CrashText:
    """`tag` is short, `sentence` says what happened."""

    tag: str
    sentence: str


# Where it was we who ended the sandbox, its limit says more than the signal that was sent.
_LIMITS = {
    "HandlerOutOfMemory": CrashText("memory limit", "Its sandbox ran out of memory"),
    "HandlerCpuLimit": CrashText("CPU limit", "Its sandbox reached its limit of CPU time"),
    "HandlerTimeLimit": CrashText("time limit", "Its sandbox reached its limit of time and was stopped"),
    "ConsumerConnectionLost": CrashText(
        "connection lost", "The connection to its consumer was lost before there was an answer"
    ),
}
_BY_ITSELF = CrashText("ended itself", "Its handler ended the sandbox")
_UNKNOWN = CrashText("died", "Its sandbox died")


def describe_crash(crash: CrashedAttempt) -> CrashText:
    """Return the texts that describe a crash."""
    if crash.outcome == Outcome.NODE_LOST:
        return CrashText("node lost", "The node was lost while it was being delivered")
    if crash.outcome == Outcome.SUSPECTED:
        return CrashText("under way", "It was being delivered when another message crashed the sandbox")
    if crash.error_class in _LIMITS:
        return _LIMITS[crash.error_class]
    if crash.signal:
        return CrashText(crash.signal, f"Its sandbox was killed by {crash.signal}")
    if crash.exit_status is not None:
        return CrashText(f"exit code {crash.exit_status}", f"Its sandbox exited with code {crash.exit_status}")
    return _BY_ITSELF if crash.error_class == "HandlerExited" else _UNKNOWN
