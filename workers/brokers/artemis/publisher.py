"""Publishes to Artemis: everything is sent, then every receipt awaited."""

import time
from collections.abc import Sequence

from poisonadmin.messages.domain.failures import Failure
from workers.brokers.artemis.connection import StompConnection
from workers.brokers.artemis.messages import frame_of
from workers.brokers.artemis.routes import Route, Routes
from workers.brokers.contract import BrokerError, Login, Outgoing
from workers.brokers.publish_failures import confirm_lost, not_sent, refused, unroutable

_CHUNK = 50
# So many messages in a row that each made the broker close the connection: it is not the messages.
_MOST_REFUSED = 3

Results = list[Failure | None]


class ArtemisPublisher:
    """See contract.Publisher. It connects when it first publishes, and anew after anything went wrong."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._connection: StompConnection | None = None
        self._routes: Routes | None = None

    def publish(self, batch: Sequence[Outgoing], timeout_seconds: float) -> Results:
        """Send all, await each receipt; return place by place None, or why it is not confirmed.

        Where the broker closes the connection on one message, those after it have not been looked at, and are sent
        again.
        """
        deadline = time.monotonic() + timeout_seconds
        results: Results = [not_sent("the connection was lost before it was sent")] * len(batch)
        places = list(range(len(batch)))
        for _ in range(_MOST_REFUSED):
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
        """Publish the messages at these places; return those that the broker has not looked at."""
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
            sending.look_again()
        except BrokerError as error:
            self._drop()
            return sending.broken(str(error), connection.refused)
        if sending.unconfirmed:
            # A late receipt would be taken for another message's.
            self._drop()
            sending.broken("no confirm in time", None)
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


class _StompSending:
    """One call's messages on one connection. `unconfirmed`: the places of those that wait, by receipt, in order."""

    def __init__(
        self, connection: StompConnection, routes: Routes, batch: Sequence[Outgoing], results: Results
    ) -> None:
        self.unconfirmed: dict[str, int] = {}
        self._connection = connection
        self._routes = routes
        self._batch = batch
        self._results = results
        self._ways: dict[str, Route | None] = {}
        self._sent_to: dict[str, list[int]] = {}

    def send(self, places: Sequence[int]) -> None:
        """Write the messages for which there is a queue."""
        frames = []
        for place in places:
            name = _route_of(self._batch[place])
            if name not in self._ways:
                self._ways[name] = self._routes.to(name)
            way = self._ways[name]
            if way is None:
                self._results[place] = unroutable(f"there is no queue for {name!r}")
                continue
            receipt = self._connection.number()
            frames.append((receipt, name, place, way))
        for start in range(0, len(frames), _CHUNK):
            some = frames[start : start + _CHUNK]
            for receipt, name, place, _ in some:
                self._results[place] = None
                self.unconfirmed[receipt] = place
                self._sent_to.setdefault(name, []).append(place)
            self._connection.send(
                frame_of(self._batch[place], way.destination, way.routing, receipt) for receipt, _, place, way in some
            )

    def wait(self, deadline: float) -> None:
        """Return when everything is confirmed, or the time is over."""
        receipts = self._connection.receipts
        waiting = self.unconfirmed
        while waiting and (left := deadline - time.monotonic()) > 0:
            self._connection.wait(lambda: bool(receipts), left)
            self._settle()

    def look_again(self) -> None:
        """Let messages to a queue that is no longer what it was have failed: they may have been dropped."""
        for name, places in self._sent_to.items():
            way = self._ways[name]
            if way is not None and not self._routes.still_leads(name, way):
                self._doubt(places, f"the queue behind {name} was removed meanwhile: it may have been dropped")

    def broken(self, why: str, refused_receipt: str | None) -> list[int]:
        """Let everything without a receipt have failed; return what came after the message that was refused.

        Without a second look nobody knows whether even what is confirmed was kept, but where something was refused the
        queues were there.
        """
        self._settle()
        waiting = list(self.unconfirmed.items())
        receipts = [receipt for receipt, _ in waiting]
        if refused_receipt not in receipts:
            for place in self.unconfirmed.values():
                self._results[place] = confirm_lost(why)
            return []
        number = receipts.index(refused_receipt)
        for _, place in waiting[:number]:
            self._results[place] = confirm_lost(why)
        self._results[waiting[number][1]] = refused(why)
        return [place for _, place in waiting[number + 1 :]]

    def _settle(self) -> None:
        receipts = self._connection.receipts
        while receipts:
            self.unconfirmed.pop(receipts.pop(), None)

    def _doubt(self, places: Sequence[int], why: str) -> None:
        for place in places:
            if self._results[place] is None:
                self._results[place] = confirm_lost(why)


def _route_of(one: Outgoing) -> str:
    return one.route or str((one.transport or {}).get("queue") or "")
