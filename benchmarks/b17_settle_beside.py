"""B17: what settling costs beside 1,000,000 messages that wait and 50,000 that are under way, and on an empty table."""

import statistics

from django.db import connection

from benchmarks import loads
from benchmarks.b06_claim_settle import write_outcomes
from benchmarks.results import Line, alternate, at_most, pairs_of, ratio_text, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.window import MAX_WINDOW
from poisonadmin.store.models.destination import Destination

NAME = "B17"
MESSAGES = 40_000
WAITING = 1_000_000
UNDER_WAY = 50_000
DAY_SECONDS = 86_400

# Nodes that live, hold their claims and may begin nothing more: so the next claim has room.
_NODES = """
INSERT INTO node (name, host, pid, claim_id, shard, lease_until, under_way)
SELECT 'b17', 'b17', 1, claim_id, shard, now() + interval '1 day', '{}' FROM claim_shard WHERE claim_id = %(claim)s
"""


def run(world: World) -> list[Line]:
    """Measure. What is settled was delivered; what is beside it belongs to another destination."""
    count, waiting, under_way = (world.count(each, least=1_000) for each in (MESSAGES, WAITING, UNDER_WAY))
    for name in ("b17", "b17-beside"):
        loads.deliver_to(name, "http://127.0.0.1:9/", concurrency=512)
    Destination.objects.filter(name__startswith="b17").update(window=MAX_WINDOW)
    say(f"  {count:,} messages settled beside {waiting:,} that wait and {under_way:,} under way")
    alternate([("before", lambda: settling(1_000))], rounds=1, unit="messages")  # so that the first round is no start
    rates = alternate(
        [
            ("settle on an empty table", lambda: settling(count)),
            ("settle beside", lambda: settling(count, waiting=waiting, under_way=under_way)),
        ],
        rounds=world.rounds,
        unit="messages",
    )
    loads.empty()
    pairs = pairs_of(rates, "settle beside", "settle on an empty table")
    costs = [1 / pair.ratio for pair in pairs]
    ours, alone = (statistics.median(rate.cpu_us for rate in each) for each in rates.values())
    note = f"worst {ratio_text(max(costs))}; {alone:.1f} against {ours:.1f} us of processor time"
    work = f"settle beside {waiting:,} that wait and {under_way:,} under way / on an empty table"
    return [at_most(NAME, work, statistics.median(costs), aim=1.1, unit="x", note=note)]


def settling(count: int, *, waiting: int = 0, under_way: int = 0) -> Rate:
    """Settle `count` messages that were delivered, beside so many others; only the settling counts."""
    loads.empty()
    now = loads.database_now()
    if under_way:
        loads.fill("b17-beside.now", under_way, begin=now - 60, over_seconds=30)
        _take_all()
    if waiting:
        loads.fill("b17-beside.later", waiting, begin=now + DAY_SECONDS, over_seconds=DAY_SECONDS)
    loads.fill("b17.x", count, begin=now - 60, over_seconds=30)
    loads.settle_down()
    watch = Stopwatch()
    while (claim := claim_due(tasks=2)) is not None:
        write_outcomes(claim, "b17")
        with watch:
            settle(claim.id)
    assert loads.count_in("b17.x", "DLVD") == count, "not every message was settled"
    assert not under_way or loads.count_in("b17-beside.now", "DLNG") == under_way, "what was under way moved"
    return watch.rate(count)


def _take_all() -> None:
    while (claim := claim_due(tasks=2)) is not None:
        with connection.cursor() as cursor:
            cursor.execute(_NODES, {"claim": claim.id})
