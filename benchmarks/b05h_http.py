"""B5h: redelivery over HTTP by the whole system, against a plain aiohttp client that posts the same bodies."""

import asyncio

import aiohttp

from benchmarks import live, loads
from benchmarks.results import Line, alternate, compared, pairs_of, say
from benchmarks.stopwatch import Rate, Stopwatch
from benchmarks.world import World

NAME = "B5H"
MESSAGES = 100_000
CONCURRENCY = 64
PATH = "/ok/b5h"
LIMIT = "the processor time of history, attempts and settling beside the request (PROFILE)"


def run(world: World) -> list[Line]:
    """Measure. Ours counts from when the messages are due until all are settled as delivered."""
    count = world.count(MESSAGES, least=1_000)
    sink = world.live.sink
    loads.deliver_to("b5h", sink.url(PATH), concurrency=CONCURRENCY)
    say(f"  {count:,} messages, {CONCURRENCY} requests at once")

    def ours() -> Rate:
        delivered = live.deliver("b5h.x", count)
        assert len({arrival.message_id for arrival in sink.take_arrivals(PATH)}) == count, "not all arrived"
        return delivered.watch.rate(count, seconds=delivered.seconds)

    def peer() -> Rate:
        rate = asyncio.run(post_all(sink.url(PATH), count))
        sink.take_arrivals(PATH)
        return rate

    live.deliver("b5h.x", min(count, 5_000))  # so that the claims have grown to what the consumer can take
    sink.take_arrivals(PATH)
    rates = alternate([("redelivery", ours), ("plain aiohttp client", peer)], rounds=world.rounds, unit="messages")
    pairs = pairs_of(rates, "redelivery", "plain aiohttp client")
    return [compared(NAME, "redelivery over HTTP / plain aiohttp client", pairs, unit="messages", aim=0.9, limit=LIMIT)]


async def post_all(url: str, count: int) -> Rate:
    """Post `count` bodies, `CONCURRENCY` at once over kept connections."""
    body = b"x" * loads.BODY_BYTES
    left = iter(range(count))

    async def work(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(url, data=body, headers={"Content-Type": "text/plain"}) as answer:
                await answer.read()
                assert answer.status == 200

    watch = Stopwatch()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:
        with watch:
            await asyncio.gather(*(work(session) for _ in range(CONCURRENCY)))
    return watch.rate(count)
