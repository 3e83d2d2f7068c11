"""B1R: an operation approves a hundred thousand messages at a rate, as the consumer sees it; one is cancelled.

What comes in meanwhile for the same consumer is not to wait for it.
"""

import time
from bisect import bisect_left

from benchmarks import live, loads
from benchmarks.results import Line, at_most, quantile, say
from benchmarks.world import World
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.operations import get_operation

NAME = "B1R"
MESSAGES = 100_000
RATE = 2_000.0
LIVE_MESSAGES = 50
LIVE_SECONDS = 3.0
PATH = "/ok/b1r"
LIMIT = "a slot that is missed is reserved again, and one in a second is at the edge of two claims"


def run(world: World) -> list[Line]:
    """Approve at the rate, then once more and cancel in the middle."""
    count = world.count(MESSAGES, least=10_000)
    loads.deliver_to("b1r", world.live.sink.url(PATH))
    live.deliver("b1r.x", 1_000)  # so that compilers have done their work
    _fill(count)
    world.live.sink.take_arrivals(PATH)
    before = dict(world.live.memory.peaks)
    operation = _begin()
    live.wait_until(lambda: _ended(operation), seconds=count / RATE * 4 + 60, what="the operation")
    times = sorted(arrival.at for arrival in world.live.sink.take_arrivals(PATH))
    assert len(times) == count
    most = max(bisect_left(times, at + 1.0) - place for place, at in enumerate(times))
    reached = (count - 1) / (times[-1] - times[0])
    say(f"    {reached:,.0f}/s over {times[-1] - times[0]:.1f} s, at most {most:,} in a second")
    say(f"    peaks before {before}, after {world.live.memory.peaks}")
    _fill(count)
    late, cancelled = _cancel_in_the_middle(world)
    p50, p95 = quantile(late, 0.5), quantile(late, 0.95)
    return [
        at_most(NAME, f"deliveries in the fullest second, at {RATE:,.0f}/s", most, aim=RATE + 1, unit="", limit=LIMIT),
        Line(
            NAME, "the rate over the whole run", f"{reached:,.0f}/s", f">= {0.95 * RATE:,.0f}/s", reached >= 0.95 * RATE
        ),
        at_most(NAME, "what comes in meanwhile is late by, p50", p50, aim=0.5, unit="s", note=f"p95 {p95:.2f} s"),
        at_most(NAME, "from *Cancel* to the last request", cancelled, aim=2.0, unit="s"),
    ]


def _fill(count: int) -> None:
    loads.empty()
    loads.fill("b1r.x", count, begin=loads.database_now() + 10_000)
    quarantined = begin({"state": ["TBDL"]}, OperationAction.QUARANTINE, reason="waits", principal=SYSTEM)
    live.wait_until(lambda: _ended(quarantined), seconds=120, what="the quarantine")


def _begin() -> int:
    filter_ = {"state": ["NDLV"]}
    return begin(
        filter_, OperationAction.APPROVE, reason="measured", principal=SYSTEM, terms=OperationTerms(Pace(RATE))
    )


def _ended(operation: int) -> bool:
    return get_operation(operation, principal=SYSTEM).ended_at is not None


def _cancel_in_the_middle(world: World) -> tuple[list[float], float]:
    """Return how late what came in meanwhile was, and how many seconds after the cancel the last request came in."""
    loads.fill("b1r.live", LIVE_MESSAGES, begin=loads.database_now() + 3, over_seconds=LIVE_SECONDS)
    due = loads.due_times()
    operation = _begin()
    live.wait_until(lambda: loads.count_in("b1r.live", "DLVD") == LIVE_MESSAGES, seconds=60, what="the live messages")
    seen = world.live.sink.take_arrivals(PATH)
    late = live.lateness([arrival for arrival in seen if arrival.message_id in due], due)
    asked = time.time()
    change(operation, OperationChange.CANCEL, reason="measured", principal=SYSTEM)
    live.wait_until(lambda: _ended(operation), seconds=60, what="the end of the cancelled operation")
    ledger = get_operation(operation, principal=SYSTEM).ledger
    assert ledger.cancelled
    assert ledger.total == ledger.done
    return late, max(arrival.at for arrival in world.live.sink.take_arrivals(PATH)) - asked
