"""Publishes to Artemis: everything is sent, then every receipt awaited.

Artemis takes a message that no queue is there for and drops it without an error. So it is asked before whether there is
a queue, and again when everything is confirmed: where it is the same queue still, nothing was dropped.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from workers.brokers.artemis.connection import StompConnection
from workers.brokers.artemis.management import MULTICAST, Management, queue_named, queues_at
from workers.brokers.artemis.messages import frame_of
from workers.brokers.contract import BrokerError, Login, Outgoing, Results
from workers.brokers.publishing import MOST_REFUSED, Sending, confirm_lost, not_sent, refused, unroutable

_CHUNK = 50


@dataclass(frozen=True)
class Route:
    """The name in a frame, the way in which its address hands messages on, and the numbers of the queues behind it."""

    destination: str
    routing: str
    queues: frozenset[str]


class Routes:
    """Finds routes over one connection. Errors of all methods: `BrokerError`."""

    def __init__(self, connection: StompConnection) -> None:
        try:
            self._management = Management(connection)
        except BrokerError as error:
            raise BrokerError(f"a login that sends messages must be allowed to manage {error}") from None

    def to(self, name: str) -> Route | None:
        """Return the route to a queue, or to an address with queues; None where there is neither."""
        queue = queue_named(self._management, name)
        if queue is not None:
            return Route(queue.place, queue.routing, frozenset((queue.number,)))
        behind = queues_at(self._management, name) if name and "::" not in name else []
        # A topic's subscribers all get one; of queues that share an address, one does.
        topic = [one for one in behind if not one.is_anycast]
        chosen = topic or behind
        if not chosen:
            return None
        return Route(name, MULTICAST if topic else chosen[0].routing, frozenset(one.number for one in chosen))

    def still_leads(self, name: str, route: Route) -> bool:
        """Return whether the queues that were there are there still."""
        now = self.to(name)
        return now is not None and route.queues <= now.queues


class ArtemisPublisher:
    """See contract.Publisher. It connects when it first publishes, and anew after anything went wrong."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._connection: StompConnection | None = None
        self._routes: Routes | None = None

    def publish(self, batch: Sequence[Outgoing], timeout_seconds: float) -> Results:
        """Send all, await each receipt; return place by place None, or why it is not confirmed.

        Where the broker closes the connection on one message, it has not read those after it: they are sent again.
        """
        deadline = time.monotonic() + timeout_seconds
        results: Results = [not_sent("the connection was lost before it was sent")] * len(batch)
        places = list(range(len(batch)))
        for _ in range(MOST_REFUSED):
            places = self._send_and_wait(batch, places, results, deadline)
            if not places:
                break
        return results

    def close(self) -> None:
        """Close the connection, without an error."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._routes = None

    def _send_and_wait(
        self, batch: Sequence[Outgoing], places: Sequence[int], results: Results, deadline: float
    ) -> list[int]:
        """Publish the messages at these places; return those that the broker has not read."""
        try:
            connection, routes = self._opened(deadline)
        except BrokerError as error:
            self._drop()
            for place in places:
                results[place] = not_sent(str(error))
            return []
        sending = _StompSending(connection, routes, batch, results)
        try:
            sending.send(places)
            sending.wait(deadline)
            sending.check_routes()
        except BrokerError as error:
            self._drop()
            return sending.fail_after(str(error), connection.refused)
        if sending.unconfirmed:
            # A late receipt would be taken for another message's.
            self._drop()
            sending.fail(confirm_lost("no confirm in time"))
        return []

    def _opened(self, deadline: float) -> tuple[StompConnection, Routes]:
        if self._connection is None or self._routes is None or not self._connection.is_open:
            self._drop()
            seconds = max(deadline - time.monotonic(), 0.1)
            self._connection = StompConnection(self._login, timeout_seconds=seconds)
            self._routes = Routes(self._connection)
        self._connection.timeout_seconds = max(deadline - time.monotonic(), 0.1)
        return self._connection, self._routes

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.drop()
        self._connection = self._routes = None


class _StompSending(Sending[str]):
    """Receipts name messages by numbers of the connection."""

    def __init__(
        self, connection: StompConnection, routes: Routes, batch: Sequence[Outgoing], results: Results
    ) -> None:
        super().__init__(batch, results)
        self._connection = connection
        self._routes = routes
        self._route_by_name: dict[str, Route | None] = {}
        self._sent_to: dict[str, list[int]] = {}

    def send(self, places: Sequence[int]) -> None:
        """Write the messages for which there is a queue."""
        frames = []
        for place in places:
            name = self._batch[place].target
            if name not in self._route_by_name:
                self._route_by_name[name] = self._routes.to(name)
            route = self._route_by_name[name]
            if route is None:
                self._results[place] = unroutable(f"there is no queue for {name!r}")
                continue
            frames.append((self._connection.number(), name, place, route))
        for start in range(0, len(frames), _CHUNK):
            chunk = frames[start : start + _CHUNK]
            for receipt, name, place, _ in chunk:
                self._results[place] = None
                self.unconfirmed[receipt] = place
                self._sent_to.setdefault(name, []).append(place)
            self._connection.send(
                frame_of(self._batch[place], route.destination, route.routing, receipt)
                for receipt, _, place, route in chunk
            )

    def check_routes(self) -> None:
        """Let messages to a queue that is no longer what it was have failed: they may have been dropped."""
        for name, places in self._sent_to.items():
            route = self._route_by_name[name]
            if route is None or self._routes.still_leads(name, route):
                continue
            for place in places:
                if self._results[place] is None:
                    why = f"the queue behind {name} was removed meanwhile: it may have been dropped"
                    self._results[place] = confirm_lost(why)

    def fail_after(self, why: str, refused_receipt: str | None) -> list[int]:
        """Let everything without a receipt have failed; return what came after the message that was refused.

        Without a receipt for it, nobody knows whether the broker has read what came before that one.
        """
        self._settle()
        waiting = list(self.unconfirmed.items())
        self.fail(confirm_lost(why))
        receipts = [receipt for receipt, _ in waiting]
        if refused_receipt not in receipts:
            return []
        number = receipts.index(refused_receipt)
        self._results[waiting[number][1]] = refused(why)
        return [place for _, place in waiting[number + 1 :]]

    def _listen(self, seconds: float) -> None:
        self._connection.wait(lambda: bool(self._connection.receipts), seconds)

    def _settle(self) -> None:
        receipts = self._connection.receipts
        while receipts:
            self.unconfirmed.pop(receipts.pop(), None)
