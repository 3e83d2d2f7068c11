"""When deliveries begin: each at its slot, never more a second than the rate allows, none after it expired."""

import asyncio
import threading
import time

import pytest
from aiohttp import web

from poisonadmin.delivery.domain.claim_plan import slot_distance
from tests.workers.sinks import Seen, deliver, delivery, destination, http_sink


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


@pytest.mark.parametrize("rate", [10, 40, 1_000])
def test_no_second_has_more_than_the_rate_and_one(rate):
    async def run() -> list[float]:
        seen = Seen()
        base = time.time() + 0.05
        async with http_sink(seen=seen) as url:
            slotted = [delivery(n, start_at=base + n * slot_distance(rate)) for n in range(int(rate * 1.5))]
            await deliver(slotted, destination(url))
        return seen.times

    times = asyncio.run(run())
    assert len(times) == int(rate * 1.5)
    # A busy machine brings a request some ms after its slot, and it falls among those of the next ones.
    assert most_within(times, 1.0) <= rate * 1.05 + 1


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
            slotted = [delivery(n, start_at=base + n * slot_distance(rate)) for n in range(30)]
            await deliver(slotted, destination(url, concurrency=1))
        return times, len(times)

    times, count = asyncio.run(run())
    assert count == 30
    # Behind the slow one they keep the distances of their slots.
    assert most_within(times[1:], 1.0) <= rate + 1


def test_no_second_has_more_where_the_slots_of_two_claims_meet():
    rate = 40
    distance = slot_distance(rate)

    async def run() -> tuple[list[float], int]:
        times: list[float] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            times.append(time.monotonic())
            if len(times) == 1:
                await asyncio.sleep(0.3)  # the first claim falls behind
            return web.Response()

        base = time.time()
        async with http_sink(answer) as url:
            first, second = (
                [
                    delivery(40 * claim + n, start_at=begin + n * distance, start_before=begin + 40 * distance)
                    for n in range(40)
                ]
                for claim, begin in ((0, base), (1, base + 40 * distance))
            )
            to = destination(url, concurrency=1)
            both = await asyncio.gather(deliver(first, to), deliver(second, to))
        return times, sum(done.summary.not_begun for done in both)

    times, left = asyncio.run(run())
    assert len(times) + left == 80
    assert left
    assert most_within(times[1:], 1.0) <= rate + 1


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


def test_a_stop_from_another_thread_ends_the_waiting_for_slots():
    async def run():
        stop = threading.Event()
        threading.Timer(0.05, stop.set).start()
        async with http_sink() as url:
            return await deliver([delivery(start_at=time.time() + 3600)], destination(url), is_stopping=stop.is_set)

    assert asyncio.run(run()).summary.not_begun == 1
