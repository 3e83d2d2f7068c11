"""B10: 10,000 messages, 10 of them killers, in batches of 100: who is blamed, here and in a RabbitMQ quorum queue."""

import subprocess
import sys
import time

import pika

from benchmarks import live, loads, orders
from benchmarks.quorum_consumer import KILLER
from benchmarks.results import Line, at_most, say
from benchmarks.world import World
from tests.brokers.rabbitmq import running_rabbitmq

NAME = "B10"
MESSAGES = 10_000
KILLERS = 10
PREFETCH = 100
# Two deliveries, as two crashes here: RabbitMQ dead-letters what has been returned more often than this.
DELIVERY_LIMIT = 1
KINDS = ("kill SIGKILL", "segfault", "abort", "_exit 3", "exit 4")


def run(world: World) -> list[Line]:
    """Measure."""
    count = world.count(MESSAGES, least=1_000)
    killers = max(2, round(KILLERS * count / MESSAGES))
    innocents, seconds = _ours(count, killers)
    say(f"    ours: {innocents} innocents stopped, {killers} killers after two crashes each, {seconds:.1f} s")
    dead, crashes, peer_seconds = _quorum_queue(world, count, killers)
    say(f"    quorum queue: {dead} of {count - killers} innocents stopped, {crashes} crashes, {peer_seconds:.1f} s")
    peer = f"RabbitMQ, delivery limit {DELIVERY_LIMIT}, prefetch {PREFETCH}: {dead}, {dead / killers:.0f} a killer"
    work = f"innocents stopped, of {count:,} messages with {killers} killers"
    return [at_most(NAME, work, innocents, aim=0, unit="innocents", note=peer)]


def _ours(count: int, killers: int) -> tuple[int, float]:
    orders.handle_with("b10", "honest:handle")
    begin = loads.database_now() + 4 + count / 2_000
    bodies = [orders.order(deed) for deed in orders.deeds(count, killers, KINDS)]
    orders.fill("b10.x", bodies, begin=begin)
    live.wait_until(lambda: sum(orders.decided()[:2]) == count, seconds=600, what=f"decisions on {count:,} messages")
    delivered, blacklisted, _ = orders.decided()
    orders.check_attempts(delivered, blacklisted)
    return blacklisted - killers, loads.last_change() - begin


def _quorum_queue(world: World, count: int, killers: int) -> tuple[int, int, float]:
    """Return how many innocents were dead-lettered, how often the consumer died, and the seconds that all took."""
    home = world.directory / "rabbitmq"
    home.mkdir()
    with running_rabbitmq(home) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("dead", durable=True, arguments={"x-queue-type": "quorum"})
        wanted = {
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        }
        channel.queue_declare("orders", durable=True, arguments=wanted)
        channel.confirm_delivery()
        for deed in orders.deeds(count, killers, (KILLER.decode(),)):
            channel.basic_publish("", "orders", deed.encode() or b"order", pika.BasicProperties(delivery_mode=2))
        began = time.monotonic()
        crashes = 0
        command = [sys.executable, "-m", "benchmarks.quorum_consumer", broker.url, "orders", str(PREFETCH)]
        while subprocess.run(command, check=False).returncode != 0:
            crashes += 1
            assert crashes < killers * 10, "it goes on for ever"
        seconds = time.monotonic() - began
        dead = 0
        while channel.basic_get("dead", auto_ack=True)[0] is not None:
            dead += 1
        connection.close()
    return dead - killers, crashes, seconds
