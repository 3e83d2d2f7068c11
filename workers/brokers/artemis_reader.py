"""Reads one queue of Artemis; one acknowledgement settles all that was stored."""

import contextlib
import time
from collections import deque
from collections.abc import Sequence

from workers.brokers.artemis_messages import taken_of
from workers.brokers.artemis_queues import Queue
from workers.brokers.contract import BrokerError, Taken
from workers.brokers.stomp_connection import StompConnection

READ_BYTES = 8 * 1024 * 1024
# What the broker may have given out without an acknowledgement: two batches are stored while a third is read.
_WINDOW_BYTES = 3 * READ_BYTES
_SUBSCRIPTION = "drain"


class ArtemisReader:
    """A consumer of one queue; see contract.Reader."""

    def __init__(self, connection: StompConnection, queue: Queue, name: str) -> None:
        self._connection = connection
        self._name = name
        self._arrived = connection.arrived[_SUBSCRIPTION]
        self._given: deque[tuple[int, str]] = deque()  # in the order in which they came, with what acknowledges each
        self._stored: set[int] = set()
        self._count = 0
        self._left: int | None = None  # how many are still read after the end was asked for
        subscription = {
            "id": _SUBSCRIPTION,
            "destination": queue.place,
            "subscription-type": queue.routing,
            "ack": "client",
            "consumer-window-size": str(_WINDOW_BYTES),
        }
        connection.settle("SUBSCRIBE", subscription, "asking for messages")

    def read(self, limit: int, wait_seconds: float) -> list[Taken]:
        """Return up to `limit` messages, or 8 MB of them; none when none came for `wait_seconds`."""
        arrived = self._arrived
        taken: list[Taken] = []
        room = READ_BYTES
        deadline = time.monotonic() + wait_seconds
        while True:
            while arrived and len(taken) < limit and room > 0 and self._left != 0:
                taken.append(self._next())
                room -= len(taken[-1].payload)
            if len(taken) >= limit or room <= 0 or self._left is not None:
                return taken
            # What is on its way already is waited for only a moment: a batch that is not full is stored, too.
            wait = 0.02 if taken else max(deadline - time.monotonic(), 0.0)
            if not self._connection.wait(lambda: bool(arrived), wait):
                return taken

    def finish(self) -> None:
        """Read no more than what is here: what still comes goes back when this is closed, and counts as not given."""
        if self._left is None:
            self._left = len(self._arrived)

    def acknowledge(self, taken: Sequence[Taken]) -> None:
        """Settle the messages; when this returns the broker has done so.

        One acknowledgement is for all messages before it: those that are stored out of their order wait for the others.
        """
        self._stored.update(one.token for one in taken)
        last = None
        while self._given and self._given[0][0] in self._stored:
            token, last = self._given.popleft()
            self._stored.discard(token)
        if last is not None:
            self._connection.settle("ACK", {"id": last}, "acknowledging")

    def leave(self) -> None:
        """Give back what is not acknowledged, and keep the connection. Errors: `BrokerError`."""
        self._connection.settle("UNSUBSCRIBE", {"id": _SUBSCRIPTION}, "giving up the queue")
        self._arrived.clear()

    def close(self) -> None:
        """Give back what is not acknowledged."""
        with contextlib.suppress(BrokerError):
            self.leave()
        self._connection.close()

    def _next(self) -> Taken:
        frame = self._arrived.popleft()
        self._count += 1
        if self._left is not None:
            self._left -= 1
        self._given.append((self._count, frame.headers.get("ack", "")))
        return taken_of(frame, self._name, self._count)
