"""The news of a message that is not handled, since its bookmark is listed."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple


class _Skipped:
    def __repr__(self) -> str:
        return "SKIPPED"

    def __bool__(self) -> bool:
        return False


# What `handle` returns in place of the handler's answer when the bookmark is listed.
SKIPPED: Any = _Skipped()


class Skip(NamedTuple):
    """A message that is not handled because its bookmark is listed; `why`: what is known of it."""

    bookmark: str
    payload: Any
    why: str


OnSkip = Callable[[Skip], object]
