"""How long to wait before the next try."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.2
MOST_SECONDS = 30.0


class Backoff:
    """Waits that double from 0.2 s to 30 s, each one drawn between its half and itself.

    The draw keeps a hundred consumers from coming back in the same moment.
    """

    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def reset(self) -> None:
        """Begin again: there was an answer."""
        self._next = FIRST_SECONDS

    def seconds(self, at_least: float = 0.0) -> float:
        """Return the next wait; `at_least` is the server's own word (Retry-After), heeded up to 30 s."""
        wait = random.uniform(self._next / 2, self._next)
        self._next = min(self._next * 2, MOST_SECONDS)
        return max(wait, min(at_least, MOST_SECONDS))
