"""B15: 100,000 messages that fall due over a minute: none early, few late."""

from benchmarks import live, loads
from benchmarks.results import Line, at_most, quantile, say
from benchmarks.world import World

NAME = "B15"
MESSAGES = 100_000
OVER_SECONDS = 60.0
PATH = "/ok/b15"
LIMIT = "the time from a claim to its first request"


def run(world: World) -> list[Line]:
    """Measure, once: the peer is the ideal."""
    count = world.count(MESSAGES, least=600)
    loads.deliver_to("b15", world.live.sink.url(PATH))
    live.deliver("b15.x", min(count, 5_000))
    world.live.sink.take_arrivals(PATH)
    delivered = live.deliver("b15.x", count, over_seconds=OVER_SECONDS)
    late = live.lateness(world.live.sink.take_arrivals(PATH), delivered.due)
    assert len(late) == count, f"{len(late)} of {count} arrived"
    p50, p99 = quantile(late, 0.5), quantile(late, 0.99)
    say(f"    {count:,} over {OVER_SECONDS:.0f} s: p50 {p50:.2f} s, p99 {p99:.2f} s, least {min(late):.3f} s")
    work = f"lateness p99 of {count:,} messages due over {OVER_SECONDS:.0f} s"
    note = f"p50 {p50:.2f} s, worst {max(late):.2f} s"
    early = sum(one < 0 for one in late)
    return [
        at_most(NAME, work, p99, aim=1.5, unit="s", note=note, limit=LIMIT),
        at_most(NAME, "… delivered before they were due", early, aim=0, unit="messages"),
    ]
