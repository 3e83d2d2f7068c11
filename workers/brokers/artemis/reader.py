"""Reads one queue of Artemis; what STOMP cannot carry stays there."""

import contextlib
import time
from collections.abc import Sequence

from workers.brokers.artemis.connection import StompConnection
from workers.brokers.artemis.kinds import Kinds
from workers.brokers.artemis.management import Management
from workers.brokers.artemis.messages import taken_of
from workers.brokers.artemis.queues import ArtemisQueue
from workers.brokers.contract import BrokerError, Taken

READ_BYTES = 8 * 1024 * 1024
# What the broker may have given out without an acknowledgement; what it has given out is asked for as a whole.
_WINDOW_BYTES = 6 * 1024 * 1024
_SUBSCRIPTION = "drain"


class ArtemisReader:
    """A consumer of one queue; see contract.Reader."""

    def __init__(self, connection: StompConnection, management: Management, queue: ArtemisQueue, name: str) -> None:
        self._connection = connection
        self._name = name
        self._arrived = connection.arrived[_SUBSCRIPTION]
        self._kinds = Kinds(management, queue.name)
        self._given: dict[int, str] = {}  # by token, what acknowledges each that is not acknowledged
        self._count = 0
        self._kept_count = 0
        self._left: int | None = None  # how many are still read after the end was asked for
        subscription = {
            "id": _SUBSCRIPTION,
            "destination": queue.place,
            "subscription-type": queue.routing,
            "ack": "client-individual",
            "consumer-window-size": str(_WINDOW_BYTES),
        }
        connection.settle("SUBSCRIBE", subscription, "asking for messages")

    def read(self, limit: int, wait_seconds: float) -> list[Taken]:
        """Return up to `limit` messages, or 8 MB of them; none when none came for `wait_seconds`.

        When only messages are left that STOMP cannot carry, that is a `BrokerError`, which says so.
        """
        arrived = self._arrived
        taken: list[Taken] = []
        room = READ_BYTES
        deadline = time.monotonic() + wait_seconds
        while True:
            while arrived and len(taken) < limit and room > 0 and self._left != 0:
                if (one := self._next()) is not None:
                    taken.append(one)
                    room -= len(one.payload)
            if len(taken) >= limit or room <= 0 or self._left is not None:
                return taken
            # What is on its way already is waited for only a moment: a batch that is not full is stored, too.
            wait = 0.02 if taken else max(deadline - time.monotonic(), 0.0)
            if not self._connection.wait(lambda: bool(arrived), wait):
                if self._kept_count and not taken and not self._given:
                    raise BrokerError(
                        f"{self._kept_count} messages are JMS maps, streams or objects, which STOMP cannot carry: they"
                        " stay in the queue, where Artemis itself can retry them (retryMessages)"
                    )
                return taken

    def finish(self) -> None:
        """Read no more than what is here: what still comes goes back when this is closed, and counts as not given."""
        if self._left is None:
            self._left = len(self._arrived)

    def acknowledge(self, taken: Sequence[Taken]) -> None:
        """Settle the messages; when this returns the broker has done so."""
        acks = [self._given.pop(one.token) for one in taken if one.token in self._given]
        if not acks:
            return
        self._connection.send(("ACK", {"id": one}, b"") for one in acks[:-1])
        # The broker works on one after the other.
        self._connection.settle("ACK", {"id": acks[-1]}, "acknowledging")

    def leave(self) -> None:
        """Give back what is not acknowledged, and keep the connection. Errors: `BrokerError`."""
        self._connection.settle("UNSUBSCRIBE", {"id": _SUBSCRIPTION}, "giving up the queue")
        self._arrived.clear()

    def close(self) -> None:
        """Give back what is not acknowledged."""
        with contextlib.suppress(BrokerError):
            self.leave()
        self._connection.close()

    def _next(self) -> Taken | None:
        frame = self._arrived.popleft()
        if self._left is not None:
            self._left -= 1
        if not self._kinds.is_carried(frame):
            self._kept_count += 1
            return None
        self._count += 1
        self._given[self._count] = frame.headers.get("ack", "")
        return taken_of(frame, self._name, self._count)
