"""Order and concurrency of one destination, and that one which hangs delays no other."""

import asyncio
import itertools
import threading
import time

from aiohttp import web

from tests.workers.sinks import (
    HoldingSink,
    Seen,
    accept,
    deliver,
    delivery,
    destination,
    http_sink,
    raw_sink,
    read_request,
)
from workers.delivery import deliver as http_module
from workers.delivery import scheduler as waiting_module


def test_never_more_requests_at_once_than_the_destination_allows():
    async def run() -> HoldingSink:
        gate = HoldingSink()
        async with http_sink(gate.answer) as url:
            going = asyncio.ensure_future(deliver([delivery(n) for n in range(50)], destination(url, concurrency=4)))
            await gate.holds(4)
            gate.open.set()
            await going
        return gate

    gate = asyncio.run(run())
    assert gate.total == 50
    assert gate.most == 4


def test_a_destination_that_hangs_does_not_delay_another():
    async def run() -> tuple[int, int]:
        hanging, quick = HoldingSink(), Seen()
        async with http_sink(hanging.answer) as slow_url, http_sink(seen=quick) as quick_url:
            mixed = [delivery(n, destination_id=1 + (n % 10 == 0)) for n in range(1000)]
            all_there = asyncio.Event()

            def record(row):
                if row.destination_id == 2 and len(quick.times) == 100:
                    all_there.set()

            going = asyncio.ensure_future(
                deliver(iter(mixed), destination(slow_url, 1, concurrency=2), destination(quick_url, 2), record=record)
            )
            await all_there.wait()
            reached = hanging.total
            hanging.open.set()
            await going
            return reached, len(quick.times)

    assert asyncio.run(run()) == (2, 100)


def test_deliveries_begin_in_the_order_in_which_they_are_due():
    async def run() -> list[str]:
        seen = Seen()
        async with http_sink(seen=seen) as url:
            await deliver([delivery(n) for n in range(200)], destination(url, concurrency=1))
        return [request.headers["PoisonAdmin-Message-Id"] for request in seen.requests]

    assert asyncio.run(run()) == [str(n) for n in range(200)]


def test_connections_are_kept_alive():
    async def run() -> int:
        seen = Seen()
        ports = set()

        async def answer(request: web.Request) -> web.StreamResponse:
            ports.add(request.transport.get_extra_info("peername")[1])
            return web.Response()

        async with http_sink(answer, seen=seen) as url:
            await deliver([delivery(n) for n in range(100)], destination(url, concurrency=3))
        return len(ports)

    assert asyncio.run(run()) <= 3


def test_what_a_hanging_destination_cannot_take_is_left_alone_and_the_others_are_reached(monkeypatch):
    monkeypatch.setattr(http_module, "HELD_BYTES", 200_000)

    def source():
        for n in range(100):
            yield delivery(n, destination_id=1, payload=b"x" * 10_000)
        for n in range(100, 110):
            yield delivery(n, destination_id=2, payload=b"x" * 10_000)

    async def run():
        hanging = HoldingSink()
        all_there = asyncio.Event()
        answers = itertools.count(1)

        async def answer(request: web.Request) -> web.StreamResponse:
            if next(answers) == 10:
                all_there.set()
            return await accept(request)

        async with http_sink(hanging.answer) as slow_url, http_sink(answer) as quick_url:
            going = asyncio.ensure_future(
                deliver(source(), destination(slow_url, 1, concurrency=2), destination(quick_url, 2))
            )
            await all_there.wait()
            hanging.open.set()
            return (await going).summary.by_destination

    tallies = asyncio.run(run())
    assert tallies[2].delivered == 10
    # Two under way, and ten that fit into half of the memory.
    assert tallies[1].delivered <= 13
    assert tallies[1].begun + tallies[1].not_begun == 100


def test_a_source_is_read_no_faster_than_a_destination_takes_it(monkeypatch):
    monkeypatch.setattr(http_module, "HELD_BYTES", 50_000)
    monkeypatch.setattr(waiting_module, "ROOM_SECONDS", 60)

    async def run():
        async with http_sink() as url:
            many = (delivery(n, payload=b"x" * 10_000) for n in range(1000))
            return await deliver(many, destination(url, concurrency=4))

    assert asyncio.run(run()).summary.delivered == 1000


def test_ten_thousand_due_messages_of_a_hanging_endpoint_do_not_delay_a_thousand_of_another():
    async def hang(reader, writer):
        await read_request(reader)
        await reader.read()

    async def run():
        async with raw_sink(hang) as hanging, http_sink() as good:
            end = time.monotonic() + 3600
            all_good = threading.Event()
            delivered = itertools.count(1)

            def record(row):
                if row.destination_id == 2 and next(delivered) == 1000:
                    all_good.set()

            mixed = (delivery(n, destination_id=2 if n % 11 == 0 else 1) for n in range(11_000))
            return await deliver(
                mixed,
                destination(hanging, 1, timeout_ms=100, concurrency=8),
                destination(good, 2),
                start_deadline=lambda: 0.0 if all_good.is_set() else end,
                record=record,
            )

    summary = asyncio.run(run()).summary
    assert summary.by_destination[2].delivered == 1000
    assert summary.by_destination[1].delivered == 0
    assert summary.by_destination[1].transport_failures == summary.by_destination[1].begun
