"""B5h: redelivery over HTTP and HTTPS by the whole system, against an aiohttp client that posts the same bodies."""

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
    say(f"  {count:,} messages, {CONCURRENCY} requests at once")
    return [_compare(world, count, tls=False, aim=0.9), _compare(world, count, tls=True, aim=0.8)]


def _compare(world: World, count: int, *, tls: bool, aim: float) -> Line:
    sink = world.live.sink
    name = "b5h-tls" if tls else "b5h"
    loads.deliver_to(name, sink.url(PATH, tls=tls), concurrency=CONCURRENCY, verify_tls=False)

    def ours() -> Rate:
        delivered = live.deliver(f"{name}.x", count)
        assert len({arrival.message_id for arrival in sink.take_arrivals(PATH)}) == count, "not all arrived"
        return delivered.watch.rate(count, seconds=delivered.seconds)

    def peer() -> Rate:
        rate = asyncio.run(post_all(sink.url(PATH, tls=tls), count))
        sink.take_arrivals(PATH)
        return rate

    live.deliver(f"{name}.x", min(count, 5_000))  # so that the claims have grown to what the consumer can take
    sink.take_arrivals(PATH)
    rates = alternate([("redelivery", ours), ("plain aiohttp client", peer)], rounds=world.rounds, unit="messages")
    pairs = pairs_of(rates, "redelivery", "plain aiohttp client")
    work = f"redelivery over {'HTTPS' if tls else 'HTTP'} / plain aiohttp client"
    return compared(NAME, work, pairs, unit="messages", aim=aim, limit=LIMIT)


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
    connector = aiohttp.TCPConnector(limit=CONCURRENCY, ssl=False)  # the consumer's certificate is not verified
    async with aiohttp.ClientSession(connector=connector) as session:
        with watch:
            await asyncio.gather(*(work(session) for _ in range(CONCURRENCY)))
    return watch.rate(count)
