"""B3's peer: consumes, looks at nothing, and acknowledges a thousand at once.

`python -m benchmarks.acknowledging_consumer URL QUEUE COUNT`. It reads whole buffers as ours does; pika's own consumer
is several times as slow.
"""

import struct
import sys

from pika import spec

from workers.brokers.amqp_connection import CHANNEL, AmqpConnection
from workers.brokers.contract import Login

PREFETCH = 6000
EVERY = 1000


def main() -> None:
    """Consume so many messages."""
    url, queue, wanted = sys.argv[1:]
    count = int(wanted)
    connection = AmqpConnection(Login(url, "guest", "guest"))
    connection.call(spec.Basic.Qos(prefetch_count=PREFETCH), spec.Basic.QosOk)
    connection.call(spec.Basic.Consume(queue=queue, consumer_tag="bench"), spec.Basic.ConsumeOk)
    seen = acknowledged = 0
    while seen < count:
        connection.fill(30.0)
        seen += len(connection.arrived)
        connection.arrived.clear()
        if seen - acknowledged >= EVERY or seen >= count:
            # Tags count from 1: this acknowledges all that came so far.
            connection.send(struct.pack(">BHIHHQBB", 1, CHANNEL, 13, 60, 80, seen, 1, 0xCE))
            acknowledged = seen
    connection.call(spec.Basic.Qos(prefetch_count=PREFETCH), spec.Basic.QosOk)
    connection.close()


if __name__ == "__main__":
    main()
