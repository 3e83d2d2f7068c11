"""Says that messages which PoisonAdmin had returned to their broker are processed, from a thread of its own.

A confirmation that cannot be sent is not lost: PoisonAdmin shows as unanswered what nobody has confirmed in time.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Union

from poisonguard.errors import Unreachable
from poisonguard.server import Backoff, Server

logger = logging.getLogger("poisonguard")
MAX_WAITING = 10_000
MESSAGE_ID = "poisonadmin-message-id"
ATTEMPT = "poisonadmin-attempt"
_AGAIN = frozenset({401, 403, 408, 425, 429})

Headers = Union[Mapping[Any, Any], Iterable["tuple[Any, Any]"]]


class DeliveredMessage(NamedTuple):
    """A message of PoisonAdmin's, and the attempt at it that this is."""

    message_id: int
    attempt: int | None


def delivery_of(headers: Headers) -> DeliveredMessage | None:
    """Return what the headers say that PoisonAdmin has delivered; None where they say nothing of it.

    Names are compared as brokers may have written them: in any case, with `_` or `_HYPHEN_` for `-`.

    >>> delivery_of({"PoisonAdmin-Message-Id": "17", "PoisonAdmin-Attempt": 2})
    DeliveredMessage(message_id=17, attempt=2)
    >>> delivery_of([("poisonadmin_message_id", b"17")])
    DeliveredMessage(message_id=17, attempt=None)
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found = {_plain(name): value for name, value in pairs}
    message_id = _number(found.get(MESSAGE_ID))
    return None if message_id is None else DeliveredMessage(message_id, _number(found.get(ATTEMPT)))


def _plain(name: Any) -> str:
    return str(name).lower().replace("_hyphen_", "-").replace("_", "-")


def _number(value: Any) -> int | None:
    is_raw = isinstance(value, (bytes, bytearray, memoryview))
    text = bytes(value).decode("ascii", "replace") if is_raw else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


class Confirmer:
    """Confirms what it is given, oldest first; its thread begins with the first."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._queue: deque[DeliveredMessage] = deque()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def add(self, headers: Headers) -> None:
        """Confirm the message with these headers soon, if PoisonAdmin has delivered it; never an error."""
        try:
            delivery = delivery_of(headers)
        except Exception:
            logger.exception("headers that cannot be read; nothing is confirmed")
            return
        if delivery is None:
            return
        if len(self._queue) >= MAX_WAITING:
            logger.error("%d confirmations wait already; message %d is not confirmed", MAX_WAITING, delivery.message_id)
            return
        with self._changed:
            self._queue.append(delivery)
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="poisonguard-confirming", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is answered, for so many seconds at the most; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue, seconds)

    def stop(self, seconds: float) -> None:
        """Say what there is to say within so many seconds, and stop."""
        self.flush(seconds)
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)
        if self._queue:
            logger.warning("%d messages are processed and could not be confirmed", len(self._queue))

    def _run(self) -> None:
        backoff = Backoff()
        while not self._is_stopping:
            with self._changed:
                if not self._queue:
                    self._changed.wait()
                    continue
                delivery = self._queue[0]
            wait = self._say(delivery, backoff)
            with self._changed:
                if wait is None:
                    self._queue.popleft()
                    self._changed.notify_all()
                else:
                    self._changed.wait_for(lambda: self._is_stopping, wait)

    def _say(self, delivery: DeliveredMessage, backoff: Backoff) -> float | None:
        """Send one; return after how many seconds to try again, None when it is done with."""
        try:
            answer = self._server.confirm(delivery.message_id, delivery.attempt)
        except Unreachable as error:
            logger.warning("%d confirmations wait: %s", len(self._queue), error)
            return backoff.seconds()
        if answer.is_temporary(_AGAIN):
            logger.warning("%d confirmations wait: the server answered %d", len(self._queue), answer.status)
            return backoff.seconds(answer.retry_after)
        backoff.reset()
        if answer.status != 200:
            detail = answer.body.get("detail", "")
            logger.warning("message %d was not confirmed: %d %s", delivery.message_id, answer.status, detail)
        return None
