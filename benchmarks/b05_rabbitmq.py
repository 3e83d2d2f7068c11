"""B5: redelivery to RabbitMQ by the whole system, against the broker's own shovel, each message confirmed."""

import os
from contextlib import AbstractContextManager

from benchmarks import live, loads, memory, profile
from benchmarks.rabbit_queues import QUEUE_TYPES, Queues, running_queues
from benchmarks.results import Line, alternate, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy

NAME = "B5"
MESSAGES = 200_000
AIMS = {"classic": 1.0, "quorum": 0.6}
OURS = "redelivered"
SHOVEL = "shovel, on-confirm"
LIMIT = "claiming, publishing and settling share the cores with the broker that confirms"


def run(world: World) -> list[Line]:
    """Measure. Ours counts from when the messages are due until all are settled as delivered."""
    count = world.count(MESSAGES, least=2_000)
    lines: list[Line] = []
    with running_queues(world.directory / "b05") as queues:
        for kind in QUEUE_TYPES:
            say(f"  {count:,} messages to a {kind} queue; {os.cpu_count()} cores")
            lines += _to_queue(world, queues, kind, count)
    return lines


def _to_queue(world: World, queues: Queues, kind: str, count: int) -> list[Line]:
    target, name = f"returned-{kind}", f"b5{kind}"
    body = b"x" * loads.BODY_BYTES
    save_destination(
        name,
        kind="rabbitmq",
        config={"url": queues.url, "queue": target},
        secrets={"username": "guest", "password": "guest"},
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    save_policy(f"{name}.#", preset=None, settings={}, destination=name, principal=SYSTEM)

    def ours(meanwhile: AbstractContextManager[None] | None = None) -> Rate:
        queues.declare(target, kind)
        delivered = live.deliver(f"{name}.x", count, meanwhile=meanwhile)
        assert queues.depth(target) == count, "not all are there"
        return delivered.watch.rate(count, seconds=delivered.seconds)

    def shovel() -> Rate:
        queues.declare("source", kind)
        queues.declare(target, kind)
        queues.fill("source", count, body)
        watch = Stopwatch()
        with watch:
            queues.shovel("source", target, count)
        return watch.rate(count)

    queues.declare(target, kind)
    live.deliver(f"{name}.x", min(count, 20_000))  # so that the claims have grown to what the broker can take
    rates = alternate([(OURS, ours), (SHOVEL, shovel)], rounds=world.rounds, unit="messages")
    pairs = pairs_of(rates, OURS, SHOVEL)
    line = compared(NAME, f"{kind} queue: {OURS} / {SHOVEL}", pairs, unit="messages", aim=AIMS[kind], limit=LIMIT)

    def processes() -> dict[str, list[int]]:
        services = memory.labelled(os.getpid(), own="benchmark").items()
        # The system's own are below a Python of this process.
        return {kind: pids for kind, pids in services if "python" not in kind} | world.live.system.processes()

    return [line, *profile.lines_of(NAME, world, processes, count, ours)]
