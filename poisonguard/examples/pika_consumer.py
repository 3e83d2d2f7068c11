"""A consumer of a RabbitMQ queue whose poison messages take nobody down twice.

Run it as `python pika_consumer.py orders`, with POISONADMIN_URL, POISONADMIN_TOKEN and AMQP_URL in the environment. The
bookmark is the message id that the producer sets: a message that comes back has the same one.
"""

import functools
import json
import os
import signal
import sys
import time
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from poisonguard.errors import Undecided
from poisonguard.guard import Guard, Skip


def bill(body: bytes) -> None:
    """Do the work; here: print what the order costs."""
    order = json.loads(body)
    print(f"order {order['id']}: {order['quantity'] * order['price']}", flush=True)


def skipped(skip: Skip) -> None:
    """Say what is left out."""
    print(f"skipped {skip.bookmark}: {skip.why}", flush=True)


def main(queue: str) -> None:
    """Consume the queue until somebody ends it."""
    guard = Guard(
        os.environ["POISONADMIN_URL"],
        os.environ["POISONADMIN_TOKEN"],
        source=queue,
        journal_dir=os.environ.get("JOURNAL_DIR", "journal"),
        version="1.0",
        send_payload=True,
        on_skip=skipped,
    )

    def received(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        try:
            guard.handle(properties.message_id, body, bill)
        except Undecided:
            # Its failure is on its way to PoisonAdmin: back into the queue, and not at full speed.
            time.sleep(0.5)
            channel.basic_nack(method.delivery_tag, requeue=True)
        except Exception as error:
            # It is reported. It comes back, and is skipped, which acknowledges it, as soon as it is listed.
            print(f"failed {properties.message_id}: {error}", flush=True)
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            channel.basic_ack(method.delivery_tag)

    with guard, pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume(queue, received)
        # What is being handled is handled to its end and acknowledged; a deliberate stop is nobody's fault.
        stop = functools.partial(connection.add_callback_threadsafe, channel.stop_consuming)
        signal.signal(signal.SIGTERM, lambda *_: stop())
        print(f"consuming {queue}", flush=True)
        channel.start_consuming()


if __name__ == "__main__":
    main(sys.argv[1])
