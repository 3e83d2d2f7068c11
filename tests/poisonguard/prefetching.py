"""A consumer of a RabbitMQ queue with a prefetch of 100, under the guard; one body kills whoever handles it.

`python prefetching.py QUEUE NOTES` with AMQP_URL and what the guard needs in the environment. Each body that was
handled is noted as a line of the file NOTES before it is acknowledged; it ends when nothing has come for two seconds.
"""

import os
import signal
import sys

import pika

from poisonguard.errors import Undecided
from poisonguard.guard import Guard

PREFETCH = 100
QUIET_SECONDS = 2


def main(queue: str, notes: str) -> None:
    """Consume until the queue is quiet."""
    noted = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def handle(body: bytes) -> None:
        if body == b"poison":
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(noted, body + b"\n")

    environ = os.environ
    guard = Guard(environ["POISONADMIN_URL"], environ["POISONADMIN_TOKEN"], queue, journal_dir=environ["JOURNAL_DIR"])
    with guard, pika.BlockingConnection(pika.URLParameters(environ["AMQP_URL"])) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        for method, properties, body in channel.consume(queue, inactivity_timeout=QUIET_SECONDS):
            if method is None:
                break
            try:
                guard.handle(properties.message_id, body, handle)
            except Undecided:
                channel.basic_nack(method.delivery_tag, requeue=True)
            else:
                channel.basic_ack(method.delivery_tag)


if __name__ == "__main__":
    main(*sys.argv[1:])
