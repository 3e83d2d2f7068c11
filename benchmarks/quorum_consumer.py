"""B10's peer: a consumer with a prefetch of many, which acknowledges each message and dies of some.

`python -m benchmarks.quorum_consumer URL QUEUE PREFETCH`; ends with 0 when nothing has come for a while.
"""

import os
import signal
import sys

import pika

KILLER = b"kill"
QUIET_SECONDS = 2.0


def main() -> int:
    """Consume until nothing comes."""
    url, queue, prefetch = sys.argv[1:]
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.basic_qos(prefetch_count=int(prefetch))
    for method, _, body in channel.consume(queue, inactivity_timeout=QUIET_SECONDS):
        if method is None:
            channel.connection.close()
            return 0
        if body == KILLER:
            os.kill(os.getpid(), signal.SIGKILL)
        channel.basic_ack(method.delivery_tag)
    return 0


if __name__ == "__main__":
    sys.exit(main())
