"""B7: claiming and settling while others hold snapshots of the database, against its own beginning."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from benchmarks import loads
from benchmarks.b06_claim_settle import write_outcomes
from benchmarks.results import Line, say
from benchmarks.stopwatch import Stopwatch
from benchmarks.world import World
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.window import MAX_WINDOW
from poisonadmin.store.models.destination import Destination

NAME = "B7"
MESSAGES = 3_000_000
SNAPSHOT_SECONDS = 60.0
PARTS = 6
LIMIT = "row versions that no vacuum may take away while somebody's snapshot shows them"


def run(world: World) -> list[Line]:
    """Measure: the messages are worked off in six parts of the same size, the last against the first."""
    count = world.count(MESSAGES, least=30_000)
    loads.deliver_to("b7", "http://127.0.0.1:9/", concurrency=512)
    Destination.objects.filter(name="b7").update(window=MAX_WINDOW)
    loads.empty()
    loads.fill("b7.x", count, begin=loads.database_now() - 60, over_seconds=30)
    loads.settle_down()
    began = time.monotonic()
    with snapshots(world.services.database_url, SNAPSHOT_SECONDS):
        rates = [_work_off(count // PARTS) for _ in range(PARTS)]
    seconds = time.monotonic() - began
    loads.empty()
    say(f"    {', '.join(f'{rate:,.0f}' for rate in rates)} messages/s over {seconds:.0f} s")
    share = rates[-1] / rates[0]
    work = f"claim + settle of {count:,} under snapshots of {SNAPSHOT_SECONDS:.0f} s, the last sixth / the first"
    return [Line(NAME, work, f"{share:.2f}x in {seconds:.0f} s", ">= 0.95x", share >= 0.95, LIMIT)]


def _work_off(count: int) -> float:
    """Return at how many a second `count` messages, or a claim more, were claimed and settled."""
    watch, done = Stopwatch(), 0
    while done < count:
        with watch:
            claim = claim_due(tasks=2)
        if claim is None:
            break
        write_outcomes(claim, NAME.lower())
        with watch:
            settle(claim.id)
        done += claim.size
    return done / watch.seconds


@contextmanager
def snapshots(database_url: str, seconds: float) -> Iterator[None]:
    """Hold two snapshots of the database for so long each, one taken in the middle of the other's time."""
    is_over = threading.Event()
    holders = [
        threading.Thread(target=_hold, args=(database_url, seconds, offset, is_over)) for offset in (0.0, seconds / 2)
    ]
    for holder in holders:
        holder.start()
    try:
        yield
    finally:
        is_over.set()
        for holder in holders:
            holder.join()


def _hold(database_url: str, seconds: float, offset: float, is_over: threading.Event) -> None:
    is_over.wait(offset)
    with psycopg.connect(database_url) as session:
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        while not is_over.is_set():
            with session.transaction():
                session.execute("SELECT count(*) FROM lane")
                is_over.wait(seconds)
