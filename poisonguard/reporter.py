"""Sends reports and heartbeats from a thread of its own, so that no handler ever waits for the network.

A report is a file until it is answered. It is sent under a key that it has for ever, so that one which is sent again,
by whomever, is counted once.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Callable, NamedTuple

from poisonguard.errors import Unreachable
from poisonguard.listing import Held
from poisonguard.place import CrashJournal, Place, dead_places
from poisonguard.server import Answer, Backoff, Server
from poisonguard.wording import without_payload

logger = logging.getLogger("poisonguard")
HEARTBEAT_SECONDS = 5.0
MAX_WAITING = 10_000
MAX_WAITING_PAYLOADS = 200
MAX_REFUSED = 100
_REUSED_KEY = "idempotency_key_reused"
_AGAIN = frozenset({401, 403, 404, 408, 409, 425, 429})


class PendingReport(NamedTuple):
    """A report on the disk."""

    place: Place
    path: Path
    bookmark: str


class Reporter:
    """`crash`: makes the report of a crash from a bookmark and its payload, if that was kept."""

    def __init__(
        self,
        server: Server,
        root: Path,
        held: Held,
        *,
        crash: Callable[[str, bytes | None], dict[str, Any]],
        heartbeat: Callable[[], tuple[str, dict[str, Any]]],
    ) -> None:
        self._server = server
        self._root = root
        self._held = held
        self._crash = crash
        self._heartbeat = heartbeat
        self._queue: deque[PendingReport] = deque()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._beat_at = float("-inf")
        self._send_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="poisonguard-reports", daemon=True)

    def start(self) -> None:
        """Take over what dead processes have left, then begin to send."""
        self.take_over()
        self._thread.start()

    def report(self, place: Place, journal: CrashJournal, body: dict[str, Any]) -> None:
        """Put a report of what stands in the journal on the disk, and hold its bookmark until it is answered.

        Where there is no room, it is logged and left: the message will come back, and fail again.
        """
        bookmark = body["bookmark"]
        if len(self._queue) >= MAX_WAITING:
            logger.error("%d reports wait already; the failure of %s is not reported", MAX_WAITING, bookmark)
            return
        if len(self._queue) >= MAX_WAITING_PAYLOADS:
            body = without_payload(body)
        try:
            path = place.write_report(journal.number, journal.sequence, body)
        except OSError:
            logger.exception("the failure of %s cannot be put on the disk; it is not reported", bookmark)
            return
        self._add(PendingReport(place, path, bookmark))

    def take_over(self) -> None:
        """Report the crashes of processes that are dead, and what they had not sent."""
        for place, unfinished in dead_places(self._root):
            for number, record in unfinished:
                logger.warning("a consumer died while it handled %s", record.bookmark)
                place.report_once(number, record.sequence, self._crash(record.bookmark, record.payload))
            left = place.reports()
            if not left:
                place.close()
            for path in left:
                self._add(PendingReport(place, path, _bookmark_in(path)))

    def flush(self, seconds: float) -> bool:
        """Wait until everything is answered, for so many seconds at the most; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue, seconds)

    def stop(self, seconds: float) -> None:
        """Stop sending; what is not sent stays on the disk."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._thread.join(seconds)
        self._beat(ended=True)
        for place in {waiting.place.path: waiting.place for waiting in self._queue}.values():
            place.close()

    def _add(self, waiting: PendingReport) -> None:
        self._held.hold(waiting.bookmark)
        with self._changed:
            self._queue.append(waiting)
            self._changed.notify_all()

    def _run(self) -> None:
        backoff = Backoff()
        while not self._is_stopping:
            try:
                if time.monotonic() >= self._beat_at + HEARTBEAT_SECONDS:
                    self._beat()
                    self.take_over()
                    self._held.give_up_echoes()
                if self._queue and time.monotonic() >= self._send_at:
                    self._send(self._queue[0], backoff)
            except Exception:
                logger.exception("reports could not be sent")
                self._send_at = time.monotonic() + backoff.seconds()
            with self._changed:
                next_at = self._beat_at + HEARTBEAT_SECONDS
                if self._queue:
                    next_at = min(next_at, self._send_at)
                if not self._is_stopping and next_at > (now := time.monotonic()):
                    self._changed.wait(next_at - now)

    def _beat(self, *, ended: bool = False) -> None:
        self._beat_at = time.monotonic()
        name, body = self._heartbeat()
        try:
            self._server.heartbeat(name, {**body, "ended": ended})
        except Unreachable as error:
            logger.debug("no heartbeat: %s", error)

    def _send(self, waiting: PendingReport, backoff: Backoff) -> None:
        """Send the oldest report; where it is not answered, note when it is to be tried again."""
        try:
            body = json.loads(waiting.path.read_text())
            answer = self._server.report(body, waiting.place.key_of(waiting.path))
        except Unreachable as error:
            logger.warning("%d reports wait: %s", len(self._queue), error)
            self._send_at = time.monotonic() + backoff.seconds()
            return
        except (OSError, ValueError):
            logger.exception("the report %s cannot be read", waiting.path.name)
            answer = Answer(400, {"detail": "it cannot be read"}, 0.0)
        if answer.is_temporary(_AGAIN):
            logger.warning("%d reports wait: the server answered %d %s", len(self._queue), *_status_and_detail(answer))
            self._send_at = time.monotonic() + backoff.seconds(answer.retry_after)
            return
        backoff.reset()
        self._answered(waiting, answer)

    def _answered(self, waiting: PendingReport, answer: Answer) -> None:
        if answer.status in (200, 201) or answer.body.get("code") == _REUSED_KEY:
            waiting.path.unlink(missing_ok=True)
        else:
            logger.error("the report of %s was refused: %d %s", waiting.bookmark, *_status_and_detail(answer))
            self._set_aside(waiting.path)
        is_listed = answer.body.get("is_listed") is True and answer.body.get("bookmark") == waiting.bookmark
        with self._changed:
            self._queue.popleft()
            is_last = not any(other.place is waiting.place for other in self._queue)
            self._changed.notify_all()
        self._held.answered(waiting.bookmark, is_listed=is_listed)
        if is_last:
            waiting.place.close_if_taken_over()

    def _set_aside(self, path: Path) -> None:
        """Keep a report that the server refuses for people to look at; the newest hundred."""
        aside = self._root.parent / "refused"
        aside.mkdir(exist_ok=True, mode=0o700)
        path.replace(aside / f"{time.time_ns()}-{path.name}")
        for old in sorted(aside.iterdir())[:-MAX_REFUSED]:
            old.unlink(missing_ok=True)


def _status_and_detail(answer: Answer) -> tuple[int, str]:
    return answer.status, str(answer.body.get("detail", ""))


def _bookmark_in(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())["bookmark"])
    except (OSError, ValueError, KeyError, TypeError):
        return path.name
