"""RabbitMQ, classic and quorum queues, over AMQP 0-9-1."""

from pika import spec

from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.contract import BrokerError, Incoming, Login, Shard
from workers.brokers.rabbitmq.connection import AmqpConnection
from workers.brokers.rabbitmq.management import found_queues
from workers.brokers.rabbitmq.messages import has_deliveries, incoming_of
from workers.brokers.rabbitmq.publisher import RabbitMqPublisher
from workers.brokers.rabbitmq.reader import RabbitMqReader

# A second reader takes a task slot, which pays when there is much to read.
_MESSAGES_A_READER = 2000
# A quorum queue counts each fetch of a message as a delivery, and drops it at its limit, 20 unless it is configured.
_MOST_DELIVERIES = 10


class RabbitMqAdapter:
    """See contract.Adapter."""

    def shards(self, login: Login) -> list[Shard]:
        """Return a shard for each reader that each queue is worth; those at one queue share what it gives out.

        An empty queue is worth none.
        """
        most = int(login.options["readers"])
        found: list[Shard] = []
        connection = AmqpConnection(login)
        try:
            for queue in login.options["queues"]:
                waiting = _count(connection, queue)
                worth = min(most, -(-waiting // _MESSAGES_A_READER))
                found += [Shard(queue, place=place) for place in range(worth)]
        finally:
            connection.close()
        return found

    def depth(self, login: Login) -> int:
        """Return how many messages are ready in all queues that are drained."""
        connection = AmqpConnection(login)
        try:
            return sum(_count(connection, queue) for queue in login.options["queues"])
        finally:
            connection.close()

    def open_reader(self, login: Login, shard: Shard) -> RabbitMqReader:
        """Consume the shard's queue."""
        return RabbitMqReader(login, shard.queue)

    def open_publisher(self, login: Login) -> RabbitMqPublisher:
        """Return a publisher that is not connected yet."""
        return RabbitMqPublisher(login)

    def browse(self, login: Login, limit: int) -> list[Incoming]:
        """Return the first messages of the queues: they are fetched and given back, which is RabbitMQ's only way.

        A quorum queue counts that as a delivery: where the messages have been delivered often, nothing more is fetched.
        """
        connection = AmqpConnection(login)
        found: list[Incoming] = []
        try:
            for queue in login.options["queues"]:
                while len(found) < limit and (message := _fetched(connection, queue)) is not None:
                    found.append(message)
                    if has_deliveries(message, _MOST_DELIVERIES):
                        return found
            return found
        finally:
            # What is not acknowledged goes back to where it was.
            connection.close()

    def queues(self, login: Login) -> list[FoundQueue]:
        """Return the queues of the virtual host, asked of the management plugin."""
        return found_queues(login)


def _count(connection: AmqpConnection, queue: str) -> int:
    return int(connection.call(spec.Queue.Declare(queue=queue, passive=True), spec.Queue.DeclareOk).message_count)


def _fetched(connection: AmqpConnection, queue: str) -> Incoming | None:
    # The answer to this one comes with a message: it is sorted with those.
    connection.call(spec.Basic.Get(queue=queue))
    while not connection.arrived:
        if connection.answer(spec.Basic.GetEmpty) is not None:
            return None
        if not connection.fill(10.0):
            raise BrokerError(f"{queue}: no answer")
    return incoming_of(connection.arrived.popleft(), queue, with_get=True)


ADAPTER = RabbitMqAdapter()
