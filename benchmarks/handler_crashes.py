"""HANDLER: 20,000 messages through a handler, with and without 40 that kill it, against calling it in a bare loop."""

import asyncio
import math
import os
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from benchmarks import live, loads, orders
from benchmarks.results import Line, alternate, compared, pairs_of, say
from benchmarks.sandboxed import honest
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.messages.domain.attempt import AttemptRecord
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.sandbox.inside.answers import HandlerMessage

NAME = "HANDLER"
MESSAGES = 20_000
KILLERS = 40
CONCURRENCY = 2
LIMIT = "claims and outcomes in the database share the cores with the handler"
FUNCTIONS = {"honest": honest.handle, "trivial": honest.trivial}


@dataclass
class _Whole:
    """How long the last run took until everything was decided, killers included."""

    seconds: float = 0.0


def run(world: World) -> list[Line]:
    """Measure. Ours counts from when the messages are due until the last of those that kill nobody is delivered."""
    count = world.count(MESSAGES, least=1_000)
    killers = max(12, round(KILLERS * count / MESSAGES))
    for kind in FUNCTIONS:
        orders.handle_with(kind, f"honest:{'handle' if kind == 'honest' else kind}", concurrency=CONCURRENCY)
    plain = [orders.order()] * count
    deadly = [orders.order(deed) for deed in orders.deeds(count, killers)]
    whole = _Whole()
    say(f"  {count:,} messages, {killers} of them killers, {CONCURRENCY} sandboxes")
    _through_the_system("honest.x", plain[: count // 4], 0, whole)  # so that the claims have grown
    rates = alternate(
        [
            ("handler", lambda: _through_the_system("honest.x", plain, 0, whole)),
            ("handler, some killing it", lambda: _through_the_system("honest.x", deadly, killers, whole)),
            ("bare loop", lambda: _bare_loop("honest", plain)),
            ("sandboxes alone", lambda: _sandboxes_alone(world.directory, "handle", plain)),
            ("trivial handler", lambda: _through_the_system("trivial.x", plain, 0, whole)),
            ("trivial bare loop", lambda: _bare_loop("trivial", plain)),
            ("trivial, sandboxes alone", lambda: _sandboxes_alone(world.directory, "trivial", plain)),
        ],
        rounds=world.rounds,
        unit="messages",
    )

    def line(work: str, ours: str, peer: str, aim: float | None = None) -> Line:
        return compared(NAME, work, pairs_of(rates, ours, peer), unit="messages", aim=aim, limit=LIMIT)

    return [
        line("handler of about 1 ms / calling it in a bare loop, no crashes", "handler", "bare loop", 0.5),
        line(f"the same with {killers} killers / without", "handler, some killing it", "handler"),
        line("sandboxes alone / bare loop", "sandboxes alone", "bare loop"),
        line("trivial handler / bare loop", "trivial handler", "trivial bare loop"),
        line("trivial, sandboxes alone / bare loop", "trivial, sandboxes alone", "trivial bare loop"),
        Line(NAME, f"until the last of {killers} killers is blacklisted", f"{whole.seconds:.1f} s"),
    ]


def _through_the_system(address: str, bodies: Sequence[bytes], killers: int, whole: _Whole) -> Rate:
    begin = loads.database_now() + 4 + len(bodies) / 2_000
    orders.fill(address, bodies, begin=begin)
    lead = begin - loads.database_now()
    assert lead > 0, "the messages fell due before all of them were there"
    time.sleep(max(0.0, lead - 0.2))
    watch = Stopwatch()
    others = len(bodies) - killers
    with watch:
        live.wait_until(lambda: orders.decided()[0] >= others, seconds=900, what=f"{others:,} deliveries")
        delivered_at = orders.decided()[2]
    live.wait_until(lambda: orders.decided()[:2] == (others, killers), seconds=300, what=f"{killers} on the blacklist")
    orders.check_attempts(others, killers)
    if killers:
        whole.seconds = loads.last_change() - begin
    return watch.rate(others, seconds=delivered_at - begin)


def _bare_loop(kind: str, bodies: Sequence[bytes]) -> Rate:
    handle = FUNCTIONS[kind]
    messages = [
        HandlerMessage(body, {}, place, str(place), "x", 1, "application/json") for place, body in enumerate(bodies)
    ]
    watch = Stopwatch()
    with watch:
        for message in messages:
            handle(message)
    return watch.rate(len(bodies))


class _ListNode:
    """A node without a database: outcomes go to a list. Nothing ends its right to begin."""

    claim_id = 1
    shard = 0
    is_isolation = False

    def __init__(self, journals: Path) -> None:
        self.id = time.monotonic_ns()
        self.journals = journals
        self.rows: list[AttemptRecord] = []
        self.record = self.rows.append
        self.now = time.time

    def is_stopping(self) -> bool:
        return False

    def start_deadline(self) -> float:
        return math.inf

    def lease_deadline(self) -> float:
        return math.inf

    async def mark(self, delivery: Delivery) -> None:
        """Do nothing: nobody is tried alone here."""

    def begin(self, delivery: Delivery) -> None:
        """Do nothing: nobody looks after this node."""

    def written(self) -> int:
        return len(self.rows)

    def nothing_more_begins(self, taken: Set[int]) -> None:
        """Do nothing: there is nobody to give anything back to."""


def _sandboxes_alone(directory: Path, function: str, bodies: Sequence[bytes]) -> Rate:
    """Run the sandboxes without a database: deliveries come from a list, outcomes go to another."""
    roots = tuple(os.environ["POISONADMIN_HANDLER_PATH"].split(os.pathsep))
    destination = HandlerDestination(1, "h", f"honest:{function}", roots=roots, concurrency=CONCURRENCY)
    deliveries = [
        Delivery(place, 1, 1, "x", str(place), "application/json", payload=body) for place, body in enumerate(bodies)
    ]
    node = _ListNode(directory / "journals")
    watch = Stopwatch()
    with watch:
        asyncio.run(deliver_all(deliveries, {1: destination}, node))
    rows = node.rows
    assert len(rows) == len(bodies)
    return watch.rate(len(bodies))
