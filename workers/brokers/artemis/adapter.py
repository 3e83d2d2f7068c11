"""ActiveMQ Artemis, over STOMP 1.2."""

from collections.abc import Iterator
from contextlib import contextmanager

from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.artemis.connection import StompConnection
from workers.brokers.artemis.management import ArtemisQueue, Management, found_queues, queue_named
from workers.brokers.artemis.publisher import ArtemisPublisher
from workers.brokers.artemis.reader import ArtemisReader
from workers.brokers.contract import BrokerError, Incoming, Login, Shard

_QUIET_SECONDS = 0.5


class ArtemisAdapter:
    """See contract.Adapter. Every login must be allowed to manage: else nobody knows what queues there are."""

    def shards(self, login: Login) -> list[Shard]:
        """Return a shard for each reader of each queue; those at one queue share what it gives out."""
        readers = int(login.options["readers"])
        return [Shard(queue, place=place) for queue in login.options["queues"] for place in range(readers)]

    def depth(self, login: Login) -> int:
        """Return how many messages are in all queues that are drained."""
        with _connected(login) as connection:
            management = Management(connection)
            return sum(_queue(management, name).depth for name in login.options["queues"])

    def open_reader(self, login: Login, shard: Shard) -> ArtemisReader:
        """Consume the shard's queue.

        Artemis makes a queue that is consumed and is not there: a name that is spelt wrong would stay unseen.
        """
        connection = StompConnection(login)
        try:
            management = Management(connection)
            return ArtemisReader(connection, management, _queue(management, shard.queue), shard.queue)
        except BrokerError:
            connection.drop()
            raise

    def open_publisher(self, login: Login) -> ArtemisPublisher:
        """Return a publisher that is not connected yet."""
        return ArtemisPublisher(login)

    def browse(self, login: Login, limit: int) -> list[Incoming]:
        """Return the first messages of the queues: they are given out and given back, which is STOMP's only way.

        It does not count as a delivery.
        """
        found: list[Incoming] = []
        with _connected(login) as connection:
            management = Management(connection)
            for name in login.options["queues"]:
                if len(found) < limit:
                    found += _browsed(connection, management, name, limit - len(found))
        return found

    def queues(self, login: Login) -> list[FoundQueue]:
        """Return the broker's queues."""
        with _connected(login) as connection:
            return found_queues(connection)


@contextmanager
def _connected(login: Login) -> Iterator[StompConnection]:
    connection = StompConnection(login)
    try:
        yield connection
    finally:
        connection.close()


def _queue(management: Management, name: str) -> ArtemisQueue:
    found = queue_named(management, name)
    if found is None:
        raise BrokerError(f"there is no queue {name!r}")
    return found


def _browsed(connection: StompConnection, management: Management, name: str, limit: int) -> list[Incoming]:
    reader = ArtemisReader(connection, management, _queue(management, name), name)
    found: list[Incoming] = []
    while len(found) < limit and (some := reader.read(limit - len(found), _QUIET_SECONDS)):
        found += some
    reader.leave()
    return found


ADAPTER = ArtemisAdapter()
