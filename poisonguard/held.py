"""Bookmarks whose failure this process has reported, and that wait for what the server makes of it.

The failing consumer does not list a bookmark itself: it waits for its own echo, like everybody else (AMPS-6).
Until then it must not handle the bookmark again either, or a message that comes back at once would fail in a loop.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

ECHO_SECONDS = 10.0


class Held:
    """The bookmarks that wait: with the reports of each that have no answer, or answered *listed* and not echoed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._unanswered: Counter[str] = Counter()
        self._unechoed: dict[str, float] = {}
        self._echoed_early: set[str] = set()
        self.bookmarks: set[str] = set()

    def hold(self, bookmark: str) -> None:
        """Hold the bookmark: a report of it is on its way."""
        with self._changed:
            self._unanswered[bookmark] += 1
            self.bookmarks.add(bookmark)

    def answered(self, bookmark: str, *, is_listed: bool) -> None:
        """Let it go, unless the server has listed it: then its echo is awaited."""
        with self._changed:
            self._unanswered[bookmark] -= 1
            if is_listed and bookmark not in self._echoed_early:
                self._unechoed[bookmark] = time.monotonic()
            if self._unanswered[bookmark] <= 0:
                del self._unanswered[bookmark]
                self._echoed_early.discard(bookmark)
            self._let_go(bookmark)

    def echoed(self, bookmark: str) -> None:
        """Let it go: the list has spoken."""
        with self._changed:
            self._unechoed.pop(bookmark, None)
            # The stream may be faster than the answer.
            if bookmark in self._unanswered:
                self._echoed_early.add(bookmark)
            self._let_go(bookmark)

    def reloaded(self) -> None:
        """Let everything go that only waited for its echo: the list has come anew."""
        with self._changed:
            waiting, self._unechoed = self._unechoed, {}
            for bookmark in waiting:
                self._let_go(bookmark)

    def give_up_echoes(self, older_than: float = ECHO_SECONDS) -> None:
        """Let go of what has waited too long: it was released again, or there is no stream to bring the echo."""
        since = time.monotonic() - older_than
        with self._changed:
            for bookmark in [bookmark for bookmark, at in self._unechoed.items() if at <= since]:
                del self._unechoed[bookmark]
                self._let_go(bookmark)

    def wait(self, bookmark: str, seconds: float) -> bool:
        """Wait until the bookmark is free, for so many seconds at the most; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: bookmark not in self.bookmarks, seconds)

    def _let_go(self, bookmark: str) -> None:
        if bookmark not in self._unanswered and bookmark not in self._unechoed:
            self.bookmarks.discard(bookmark)
            self._changed.notify_all()
