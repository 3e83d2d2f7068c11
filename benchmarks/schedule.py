"""The default policy's ten attempts, as the consumer sees them: never early, at most 1.5 s late. Takes 330 s."""

from collections import defaultdict

from benchmarks import live, loads
from benchmarks.consumer import Arrival
from benchmarks.results import Line, at_most, quantile, say
from benchmarks.world import World
from poisonadmin.policies.domain.policy import BUILT_IN
from poisonadmin.policies.domain.retry_schedule import delay_ms, explain

NAME = "SCHEDULE"
MESSAGES = 20
PATH = "/fail/schedule"
AIM_SECONDS = 1.5


def run(world: World) -> list[Line]:
    """Measure the waits between the attempts of 20 messages that always fail; fewer attempts at a smaller scale."""
    attempts = max(2, round(BUILT_IN.max_delivery_attempts * world.scale))
    waits = [delay_ms(BUILT_IN, failure) / 1000 for failure in range(1, attempts)]
    settings = {} if attempts == BUILT_IN.max_delivery_attempts else {"max_delivery_attempts": attempts}
    loads.deliver_to("schedule", world.live.sink.url(PATH), settings=settings)
    say(
        f"  {MESSAGES} messages, {attempts} attempts, waits of {', '.join(f'{wait:g}' for wait in waits)} s with jitter"
    )
    loads.empty()
    loads.fill("schedule.x", MESSAGES, begin=loads.database_now())
    live.wait_until(
        lambda: loads.count_in("schedule.x", "NDLV") == MESSAGES,
        seconds=sum(waits) * 1.2 + 60,
        what=f"{MESSAGES} messages to be given up after {attempts} attempts",
    )
    late = lateness_of_redeliveries(world.live.sink.take_arrivals(PATH), attempts)
    work = f"the built-in policy's {attempts} attempts ({sum(waits):.0f} s): greatest lateness of a redelivery"
    note = f"p50 {quantile(late, 0.5):.2f} s, p95 {quantile(late, 0.95):.2f} s"
    return [
        at_most(NAME, work, max(late), aim=AIM_SECONDS, unit="s", note=note),
        at_most(NAME, "… redeliveries before their time", sum(one < 0 for one in late), aim=0, unit="attempts"),
    ]


def lateness_of_redeliveries(arrivals: list[Arrival], attempts: int) -> list[float]:
    """Return by how many seconds each redelivery came later than its wait after the attempt before."""
    seen: dict[int, dict[int, float]] = defaultdict(dict)
    for arrival in arrivals:
        seen[arrival.message_id][arrival.attempt_number] = arrival.at
    late = []
    for message_id, at in seen.items():
        assert sorted(at) == list(range(1, attempts + 1)), f"message {message_id} had the attempts {sorted(at)}"
        for number in range(1, attempts):
            delay = explain(BUILT_IN, number, message_id, number).delay / 1000
            late.append(at[number + 1] - at[number] - delay)
    return late
