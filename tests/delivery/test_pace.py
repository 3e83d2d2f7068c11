"""When deliveries begin: in order, in their slots, not too many at once, not past the end, not behind a hanging one."""

import asyncio
import itertools
import threading
import time
from collections import Counter

import pytest
from aiohttp import web

from tests.delivery.sinks import Seen, accept, deliver, delivery, destination, http_sink, raw_sink, read_request
from workers.delivery import http as http_module
from workers.delivery import waiting as waiting_module


class Gate:
    """A sink that holds every request until it is opened, and counts how many it holds."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.arrived = asyncio.Condition()
        self.inside = self.most = self.total = 0

    async def answer(self, _request: web.Request) -> web.StreamResponse:
        self.inside += 1
        self.total += 1
        self.most = max(self.most, self.inside)
        async with self.arrived:
            self.arrived.notify_all()
        try:
            await self.open.wait()
        finally:
            self.inside -= 1
        return web.Response()

    async def holds(self, count: int) -> None:
        async with self.arrived:
            await self.arrived.wait_for(lambda: self.inside == count)


def test_never_more_requests_at_once_than_the_destination_allows():
    async def run() -> Gate:
        gate = Gate()
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
        hanging, quick = Gate(), Seen()
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


@pytest.mark.parametrize("lazy", [False, True])
def test_a_delivery_never_begins_before_its_slot(lazy):
    async def run() -> list[tuple[float, float]]:
        base = time.time()
        slots = {n: base + 0.05 + n * 0.01 for n in range(20)}
        deliveries = [delivery(n, start_at=slots[n]) for n in range(20)]
        async with http_sink() as url:
            done = await deliver(iter(deliveries) if lazy else deliveries, destination(url))
        assert done.summary.delivered == 20
        return [(row.started_at.timestamp(), slots[row.message_id]) for row in done.rows]

    assert all(started >= slot - 1e-6 for started, slot in asyncio.run(run()))


def test_what_has_no_slot_does_not_wait_behind_what_has_one():
    async def run() -> list[int]:
        later = time.time() + 0.2
        async with http_sink() as url:
            done = await deliver(
                [delivery(1, start_at=later), delivery(2), delivery(3)], destination(url, concurrency=1)
            )
        return [row.message_id for row in done.rows]

    assert asyncio.run(run()) == [2, 3, 1]


def most_within(times: list[float], seconds: float) -> int:
    return max(sum(1 for other in times if start <= other < start + seconds) for start in times)


@pytest.mark.parametrize("rate", [10, 40])
def test_no_second_has_more_than_the_rate_and_one(rate):
    async def run() -> list[float]:
        seen = Seen()
        base = time.time() + 0.05
        async with http_sink(seen=seen) as url:
            slotted = [delivery(n, start_at=base + n / rate) for n in range(int(rate * 1.5))]
            await deliver(slotted, destination(url))
        return seen.times

    assert most_within(asyncio.run(run()), 1.0) <= rate + 1


def test_a_destination_that_was_slow_gets_no_burst_afterwards():
    rate = 20

    async def run() -> tuple[list[float], int]:
        times: list[float] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            times.append(time.monotonic())
            if len(times) == 1:
                await asyncio.sleep(0.5)
            return web.Response()

        base = time.time()
        async with http_sink(answer) as url:
            slotted = [delivery(n, start_at=base + n / rate) for n in range(30)]
            await deliver(slotted, destination(url, concurrency=1))
        return times, len(times)

    times, count = asyncio.run(run())
    assert count == 30
    # Behind the slow one they keep the distances of their slots.
    assert most_within(times[1:], 1.0) <= rate + 1


def test_a_slot_that_was_missed_by_more_than_a_second_is_left_alone():
    async def run():
        async with http_sink() as url:
            missed = [delivery(n, start_at=time.time() - 5 + n / 1000) for n in range(10)]
            return await deliver([*missed, delivery(99, start_at=time.time())], destination(url))

    done = asyncio.run(run())
    assert [row.message_id for row in done.rows] == [99]
    assert done.summary.not_begun == 10


def test_slots_and_expiry_follow_the_callers_clock():
    an_hour = 3600.0

    async def run():
        async with http_sink() as url:
            database_now = time.time() + an_hour
            return await deliver(
                [delivery(1, start_at=database_now + 0.05), delivery(2, expires_at=database_now - 1)],
                destination(url),
                now=lambda: time.time() + an_hour,
            )

    done = asyncio.run(run())
    assert [row.message_id for row in done.rows] == [1]
    assert done.row.started_at.timestamp() > time.time() + an_hour - 60


def test_a_message_that_expired_while_it_waited_is_left_alone():
    async def run():
        async with http_sink() as url:
            return await deliver([delivery(1, expires_at=time.time() - 0.001), delivery(2)], destination(url))

    done = asyncio.run(run())
    assert [row.message_id for row in done.rows] == [2]
    assert (done.summary.begun, done.summary.not_begun) == (1, 1)


def test_nothing_begins_after_the_deadline_and_what_was_begun_ends():
    async def run():
        gate = Gate()
        deadline = [time.monotonic() + 60]
        async with http_sink(gate.answer) as url:
            going = asyncio.ensure_future(
                deliver(
                    [delivery(n) for n in range(100)],
                    destination(url, concurrency=5),
                    start_deadline=lambda: deadline[0],
                )
            )
            await gate.holds(5)
            deadline[0] = 0.0  # the lease is revoked
            gate.open.set()
            return await going, gate.total

    done, reached = asyncio.run(run())
    assert reached == 5
    assert done.summary.begun == done.summary.delivered == len(done.rows) == 5
    assert done.summary.not_begun == 95


def test_a_deadline_that_moves_on_is_followed():
    async def run():
        asked = itertools.count()
        async with http_sink() as url:
            return await deliver(
                [delivery(n) for n in range(100)],
                destination(url, concurrency=2),
                start_deadline=lambda: time.monotonic() + (60 if next(asked) >= 0 else 0),
            )

    assert asyncio.run(run()).summary.delivered == 100


def test_a_stop_from_another_thread_ends_the_waiting_for_slots():
    async def run():
        stop = threading.Event()
        threading.Timer(0.05, stop.set).start()
        async with http_sink() as url:
            return await deliver([delivery(start_at=time.time() + 3600)], destination(url), stop=stop)

    assert asyncio.run(run()).summary.not_begun == 1


def test_a_run_that_is_cancelled_breaks_off_what_is_under_way_and_records_nothing():
    async def run() -> tuple[list[int], int]:
        gate, begun = Gate(), []
        rows = []
        async with http_sink(gate.answer) as url:
            going = asyncio.ensure_future(
                deliver(
                    [delivery(n) for n in range(10)],
                    destination(url, concurrency=3),
                    record=rows.append,
                    began=lambda one: begun.append(one.message_id),
                )
            )
            await gate.holds(3)
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
        return begun, len(rows)

    assert asyncio.run(run()) == ([0, 1, 2], 0)


def test_an_outcome_that_cannot_be_recorded_ends_the_run():
    async def run() -> int:
        written = Counter()

        def record(row):
            written["rows"] += 1
            raise ConnectionError("the database is away")

        async with http_sink() as url:
            with pytest.raises(ConnectionError, match="the database is away"):
                await deliver([delivery(n) for n in range(100)], destination(url, concurrency=2), record=record)
        return written["rows"]

    assert asyncio.run(run()) <= 2


def test_a_source_that_breaks_is_raised_after_what_was_begun_has_ended():
    def source():
        yield delivery(1)
        raise ConnectionError("the database is away")

    async def run() -> list[int]:
        rows = []
        async with http_sink() as url:
            with pytest.raises(ConnectionError, match="the database is away"):
                await deliver(source(), destination(url), record=rows.append)
        return [row.message_id for row in rows]

    assert asyncio.run(run()) in ([], [1])


def test_an_unknown_destination_is_left_alone():
    async def run():
        async with http_sink() as url:
            return await deliver([delivery(1, destination_id=404), delivery(2)], destination(url))

    done = asyncio.run(run())
    assert [row.message_id for row in done.rows] == [2]
    assert done.summary.by_destination[404].not_begun == 1


def test_what_a_hanging_destination_cannot_take_is_left_alone_and_the_others_are_reached(monkeypatch):
    monkeypatch.setattr(http_module, "HELD_BYTES", 200_000)

    def source():
        for n in range(100):
            yield delivery(n, destination_id=1, payload=b"x" * 10_000)
        for n in range(100, 110):
            yield delivery(n, destination_id=2, payload=b"x" * 10_000)

    async def run():
        hanging = Gate()
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
