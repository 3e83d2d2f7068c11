"""B13: from the click on *Approve* to the request at the consumer, one message at a time, on a system that idles."""

import http.client
import json
import random
import time

from benchmarks import live, loads
from benchmarks.results import Line, at_most, quantile, say
from benchmarks.world import World
from poisonadmin.core.domain.access import SYSTEM
from tests.fixtures.decisions import quarantine

NAME = "B13"
CLICKS = 100
PATH = "/ok/b13"
LIMIT = "the claim, and the first queries of its shard"


def run(world: World) -> list[Line]:
    """Measure: clicks come at odd moments, each when the last message has long been delivered."""
    count = world.count(CLICKS, least=10)
    loads.deliver_to("b13", world.live.sink.url(PATH))
    live.deliver("b13.x", 1_000)  # so that compilers have done their work
    loads.empty()
    loads.fill("b13.x", count, begin=loads.database_now() + 10_000)
    messages = sorted(loads.due_times())
    quarantine(messages, principal=SYSTEM, reason="waits for its click")
    world.live.sink.take_arrivals(PATH)
    waits = random.Random(13)
    took: list[float] = []
    for message_id in messages:
        time.sleep(waits.uniform(0.3, 1.3))
        clicked = time.time()
        approve(world, message_id)
        live.wait_until(lambda: loads.count_in("b13.x", "DLVD") == len(took) + 1, seconds=30, what="a delivery")
        [arrival] = world.live.sink.take_arrivals(PATH)
        assert arrival.message_id == message_id
        took.append(arrival.at - clicked)
    p50, p95 = quantile(took, 0.5), quantile(took, 0.95)
    say(f"    {count} clicks: p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, worst {max(took) * 1000:.0f} ms")
    work = "from the click to the consumer's request"
    note = f"worst {max(took) * 1000:.0f} ms"
    return [
        at_most(NAME, f"{work}, p50", p50 * 1000, aim=100, unit="ms", note=note, limit=LIMIT),
        at_most(NAME, f"{work}, p95", p95 * 1000, aim=150, unit="ms"),
    ]


def approve(world: World, message_id: int) -> None:
    """Approve the message over the API."""
    connection = http.client.HTTPConnection("127.0.0.1", world.live.system.port, timeout=30)
    headers = {"Authorization": f"Bearer {world.live.system.token}", "Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/messages/{message_id}/approve/", json.dumps({"reason": "again"}), headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    assert response.status == http.HTTPStatus.OK, f"{response.status}: {answer[:500]!r}"
