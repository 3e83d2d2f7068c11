"""B12: an endpoint that never answers, with 10,000 messages due, beside one that does, with 1,000."""

import time

from benchmarks import live, loads
from benchmarks.results import Line, at_most, quantile, say
from benchmarks.world import World

NAME = "B12"
HANGING = 10_000
ANSWERING = 1_000
TIMEOUT_SECONDS = 30
LIMIT = "the time from a claim to its first request"


def run(world: World) -> list[Line]:
    """Measure. Half of what can be delivered is due at once, half over the 30 s in which the other endpoint hangs."""
    hanging, answering = world.count(HANGING), world.count(ANSWERING)
    sink = world.live.sink
    loads.deliver_to("b12-ok", sink.url("/ok/b12"))
    loads.deliver_to("b12-hang", sink.url("/hang/b12"), timeout_ms=TIMEOUT_SECONDS * 1000)
    live.deliver("b12-ok.x", answering)
    sink.take_arrivals("/ok/b12")
    alone, beside = [], []
    for number in range(1, world.rounds + 1):
        alone.append(quantile(one_round(world, answering, hanging=0), 0.95))
        beside.append(quantile(one_round(world, answering, hanging=hanging), 0.95))
        say(f"    round {number}: p95 alone {alone[-1]:.2f} s, beside the one that hangs {beside[-1]:.2f} s")
    note = f"alone {quantile(alone, 0.5):.2f} s, worst round {max(beside):.2f} s"
    work = f"lateness p95 of {answering:,} beside {hanging:,} for an endpoint that hangs {TIMEOUT_SECONDS} s"
    return [at_most(NAME, work, quantile(beside, 0.5), aim=2.0, unit="s", note=note, limit=LIMIT)]


def one_round(world: World, answering: int, *, hanging: int) -> list[float]:
    """Return by how many seconds each of the answering endpoint's messages came late."""
    loads.empty()
    begin = loads.database_now() + live.lead_seconds(answering + hanging)
    loads.fill("b12-ok.x", answering // 2, begin=begin)
    loads.fill("b12-ok.x", answering - answering // 2, begin=begin, over_seconds=TIMEOUT_SECONDS)
    due = loads.due_times()
    if hanging:
        loads.fill("b12-hang.x", hanging, begin=begin)
    loads.settle_down()
    assert loads.database_now() < begin
    live.wait_until(
        lambda: loads.count_in("b12-ok.x", "DLVD") == answering,
        seconds=begin - loads.database_now() + TIMEOUT_SECONDS * 3,
        what="the deliveries to the endpoint that answers",
    )
    late = live.lateness(world.live.sink.take_arrivals("/ok/b12"), due)
    assert len(late) == answering, f"{len(late)} of {answering} arrived"
    if hanging:
        _end_what_hangs()
    return late


def _end_what_hangs() -> None:
    """Let what is under way end, and nothing more of it begin."""
    loads.give_up_waiting("b12-hang.x")
    until = time.monotonic() + TIMEOUT_SECONDS * 2
    while loads.count_in("b12-hang.x", "DLNG") and time.monotonic() < until:
        time.sleep(0.5)
        loads.give_up_waiting("b12-hang.x")
