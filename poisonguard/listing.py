"""The poison list as this process knows it, kept up to date by a thread of its own; and bookmarks that wait for it.

The failing consumer does not list a bookmark itself: it waits for its own echo, like everybody else (AMPS-6).
Until then it must not handle the bookmark again either, or a message that comes back at once would fail in a loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

from poisonguard.errors import Refused, Unreachable
from poisonguard.server import Answer, Backoff, Server, Stream, json_object

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


_FOR_GOOD = frozenset({400, 401, 403, 404, 405})
_SAY_EVERY_SECONDS = 30.0


class ListEvent(NamedTuple):
    """One event. `kind`: listed, released, loaded; or whatever a later server sends, to be ignored."""

    kind: str
    body: dict[str, Any]


def events(line: Callable[[], bytes]) -> Iterator[ListEvent]:
    """Yield events from lines that end in a line break, until there are no more; comments are passed over.

    >>> lines = iter([b": hello\\n", b"\\n", b"event: listed\\n", b'data: {"bookmark": "13"}\\n', b"\\n", b""])
    >>> list(events(lambda: next(lines)))
    [ListEvent(kind='listed', body={'bookmark': '13'})]
    """
    kind, text = "", ""
    while raw := line():
        text_line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if text_line:
            field, _, value = text_line.partition(":")
            if field == "event":
                kind = value.strip()
            elif field == "data":
                text += value
            continue
        if kind:
            yield ListEvent(kind, json_object(text))
        kind, text = "", ""


logger = logging.getLogger("poisonguard")


class Listing:
    """`bookmarks`: what is listed, with why. It is never emptied: without a server the last known list is in force."""

    def __init__(self, server: Server, source: str, held: Held) -> None:
        self._server = server
        self._source = source
        self._held = held
        self.bookmarks: dict[str, str] = {}
        self.is_loaded = threading.Event()
        self.refusal: str | None = None
        self._arriving: dict[str, str] | None = None
        self._stream: Stream | None = None
        self._stop = threading.Event()
        self._logged_at = 0.0
        self._thread = threading.Thread(target=self._follow, name="poisonguard-list", daemon=True)

    def start(self) -> None:
        """Begin to load the list."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Stop following it."""
        self._stop.set()
        if (stream := self._stream) is not None:
            stream.cut()
        self._thread.join(seconds)

    def wait(self, seconds: float | None) -> bool:
        """Wait until the list is complete; return whether it is. Raise Refused when the server will not have us."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self.is_loaded.wait(0.25 if deadline is None else max(0.0, min(0.25, deadline - time.monotonic()))):
            if self.refusal is not None:
                raise Refused(self.refusal)
            if self._stop.is_set():
                return False
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def _follow(self) -> None:
        backoff = Backoff()
        while not self._stop.is_set():
            retry_after = 0.0
            try:
                retry_after = self._follow_once(backoff)
            except Unreachable as error:
                self._say(str(error))
            except Exception:
                if not self._stop.is_set():
                    logger.exception("the poison list of %s could not be followed", self._source)
            self._stop.wait(backoff.seconds(retry_after))

    def _follow_once(self, backoff: Backoff) -> float:
        """Follow one stream to its end; return how long the server asks to be left alone."""
        with self._server.events(self._source) as stream:
            if stream.status != 200:
                return self._turned_away(stream.answer())
            self._stream, self._arriving = stream, {}
            try:
                for event in events(stream.line):
                    self._heed(event)
                    if event.kind == "loaded":
                        backoff.reset()
                    if self._stop.is_set():
                        break
            finally:
                self._stream = None
        return 0.0

    def _heed(self, event: ListEvent) -> None:
        bookmark = str(event.body.get("bookmark", ""))
        if event.kind == "listed":
            self._listed(bookmark, str(event.body.get("why", ""))[:200])
        elif event.kind == "released":
            self.bookmarks.pop(bookmark, None)
            if self._arriving is not None:
                self._arriving.pop(bookmark, None)
            self._held.echoed(bookmark)
        elif event.kind == "loaded":
            # What was released while there was no stream is gone only now; what was listed is in force since it came.
            self.bookmarks, self._arriving = self._arriving or {}, None
            self._held.reloaded()
            self.is_loaded.set()
            logger.info("the poison list of %s is loaded: %d bookmarks", self._source, len(self.bookmarks))

    def _listed(self, bookmark: str, why: str) -> None:
        self.bookmarks[bookmark] = why
        if self._arriving is not None:
            self._arriving[bookmark] = why
        self._held.echoed(bookmark)

    def _turned_away(self, answer: Answer) -> float:
        words = f"{self._server.name} answered {answer.status}: {answer.body.get('detail', 'no poison list there')}"
        if answer.status in _FOR_GOOD or 300 <= answer.status < 400:
            self.refusal = words
        self._say(words)
        return answer.retry_after

    def _say(self, why: str) -> None:
        now = time.monotonic()
        if now - self._logged_at < _SAY_EVERY_SECONDS and self._logged_at:
            return
        self._logged_at = now
        known = (
            "the last known list stays in force" if self.is_loaded.is_set() else "nothing is handled until it is here"
        )
        logger.warning("the poison list of %s cannot be followed (%s); %s", self._source, why, known)
