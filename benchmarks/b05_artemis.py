"""B5, for Artemis: redelivery by the whole system, against the broker's own way back, `retryMessages`."""

import os

from benchmarks import live, loads
from benchmarks.results import Line, alternate, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from tests.brokers.artemis import running_artemis
from tests.brokers.artemis_queues import ArtemisQueues
from tests.brokers.messages import Sent

NAME = "B5A"
MESSAGES = 50_000
OURS = "redelivered"
PEER = "retryMessages"
LIMIT = "history, policy and a receipt for each message; retryMessages moves references inside the broker"


def run(world: World) -> list[Line]:
    """Measure. Ours counts from when the messages are due until all are settled as delivered."""
    count = world.count(MESSAGES, least=1_000)
    home = world.directory / "b05a"
    home.mkdir()
    with running_artemis(home) as server:
        say(f"  {count:,} messages to a durable queue; {os.cpu_count()} cores")
        return [_to_queue(world, ArtemisQueues(server), count)]


def _to_queue(world: World, queues: ArtemisQueues, count: int) -> Line:
    target = "returned"
    queues.create(target)
    login = queues.login()
    save_destination(
        "b5a",
        kind="artemis",
        config={"url": login.url, "queue": target},
        secrets={"username": login.username, "password": login.password},
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    save_policy("b5a.#", preset=None, settings={}, destination="b5a", principal=SYSTEM)
    original, dead = queues.pair()

    def ours() -> Rate:
        queues.manage(f"queue.{target}", "removeAllMessages")
        delivered = live.deliver("b5a.x", count)
        assert queues.depth(target) == count, "not all are there"
        return delivered.watch.rate(count, seconds=delivered.seconds)

    def peer() -> Rate:
        queues.manage(f"queue.{original}", "removeAllMessages")
        queues.publish(original, [Sent(b"x" * loads.BODY_BYTES)] * count)
        queues.manage(f"queue.{original}", "sendMessagesToDeadLetterAddress", "")
        watch = Stopwatch()
        with watch:
            queues.manage(f"queue.{dead}", "retryMessages")
        assert queues.depth(original) == count, "not all are back"
        return watch.rate(count)

    live.deliver("b5a.x", min(count, 5_000))  # so that the claims have grown to what the broker can take
    rates = alternate([(OURS, ours), (PEER, peer)], rounds=world.rounds, unit="messages")
    return compared(NAME, f"{OURS} / {PEER}", pairs_of(rates, OURS, PEER), unit="messages", limit=LIMIT)
