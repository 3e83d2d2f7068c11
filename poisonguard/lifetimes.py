"""The guards of this process: they begin anew when it forks, and are flushed when it ends."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from poisonguard.place import forget_held


class Lasting(Protocol):
    """A guard that has to learn of a fork and of the end."""

    def forked(self) -> None:
        """Begin anew: this is the child."""

    def flush(self) -> None:
        """Give reports that are on their way a moment; what is being handled stays in the journal (AMPS-9)."""


_living: weakref.WeakSet[Lasting] = weakref.WeakSet()


def remember(guard: Lasting) -> None:
    """Tell it from now on."""
    _living.add(guard)


def forget(guard: Lasting) -> None:
    """Tell it no more."""
    _living.discard(guard)


def _after_fork() -> None:
    forget_held()
    for guard in list(_living):
        guard.forked()


def _at_exit() -> None:
    for guard in list(_living):
        guard.flush()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
