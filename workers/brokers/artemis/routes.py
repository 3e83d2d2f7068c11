"""Where a message for Artemis goes, and whether it got there.

Artemis takes a message that no queue is there for and drops it, without a word. So it is asked before whether there is
a queue, and again when everything is confirmed: where it is the same queue still, nothing was dropped.
"""

from dataclasses import dataclass

from workers.brokers.artemis.connection import StompConnection
from workers.brokers.artemis.management import Management
from workers.brokers.artemis.queues import MULTICAST, queue_named, queues_at
from workers.brokers.contract import BrokerError


@dataclass(frozen=True)
class Route:
    """What a frame names, how the address hands the message on, and the numbers of the queues behind it."""

    destination: str
    routing: str
    queues: frozenset[str]


class Routes:
    """The ways that one connection knows. Errors of all methods: `BrokerError`."""

    def __init__(self, connection: StompConnection) -> None:
        try:
            self._management = Management(connection)
        except BrokerError as error:
            raise BrokerError(f"a login that sends messages must be allowed to manage {error}") from None

    def to(self, name: str) -> Route | None:
        """Return the way to a queue, or to an address with queues; None where there is neither."""
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
