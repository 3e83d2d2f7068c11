"""B9: the counters after many transitions: whether they are exact, and what reading them costs."""

import time
from collections.abc import Callable

from django.db import connection

from benchmarks import loads
from benchmarks.b06_claim_settle import write_outcomes
from benchmarks.results import Line, at_most, quantile, ratio_text, say
from benchmarks.world import World
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.delivery.domain.window import MAX_WINDOW
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counts import counts, wrong_counters
from poisonadmin.store.models.destination import Destination

NAME = "B9"
MESSAGES = 250_000
READS = 200
LIMIT = "the counters of all combinations, and the deltas that no tick has added up yet"


def run(world: World) -> list[Line]:
    """Measure: half of the messages are delivered, half are marked FAIL and restored, between them."""
    count = world.count(MESSAGES, least=10_000)
    loads.deliver_to("b9", "http://127.0.0.1:9/", concurrency=512)
    Destination.objects.filter(name="b9").update(window=MAX_WINDOW)
    loads.empty()
    now = loads.database_now()
    loads.fill("b9.now", count // 2, begin=now - 60, over_seconds=30)
    loads.fill("b9.later", count - count // 2, begin=now + 10_000)
    while (claim := claim_due(tasks=2)) is not None:
        write_outcomes(claim, NAME.lower())
        settle(claim.id)
    for state, action in (("TBDL", "quarantine"), ("NDLV", "fail"), ("FAIL", "restore")):
        begin({"state": [state]}, OperationAction(action), reason="measured", principal=SYSTEM)
        while carry_on():
            pass
    wrong = wrong_counters()
    ours, theirs = _p95(lambda: counts(SYSTEM)), _p95(_group_by, reads=10)
    say(f"    counts of {count:,} messages: {ours * 1000:.2f} ms, by GROUP BY {theirs * 1000:.0f} ms")
    loads.empty()
    return [
        at_most(NAME, f"counters that are wrong after changes of {count:,} messages", len(wrong), aim=0, unit=""),
        at_most(
            NAME,
            "all counts, by state, address, reason, group and original address, p95",
            ours * 1000,
            aim=1,
            unit="ms",
            note=f"{ratio_text(theirs / ours)} faster than GROUP BY state",
            limit=LIMIT,
        ),
    ]


def _p95(read: Callable[[], object], reads: int = READS) -> float:
    took = []
    for _ in range(reads):
        began = time.perf_counter()
        read()
        took.append(time.perf_counter() - began)
    return quantile(took, 0.95)


def _group_by() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT state, count(*) FROM message GROUP BY state")
        found = dict(cursor.fetchall())
    assert set(found) <= {str(state) for state in State}
    return found
