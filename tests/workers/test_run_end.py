"""How a run ends: at its deadline, when it is stopped or broken off, when its source or its record fails."""

import asyncio
import itertools
import time
from collections import Counter

import pytest

from tests.workers.sinks import HoldingSink, deliver, delivery, destination, http_sink


def test_nothing_begins_after_the_deadline_and_what_was_begun_ends():
    async def run():
        gate = HoldingSink()
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


def test_a_run_that_is_cancelled_breaks_off_what_is_under_way_and_records_nothing():
    async def run() -> tuple[list[int], int]:
        gate, begun = HoldingSink(), []
        rows = []
        async with http_sink(gate.answer) as url:
            going = asyncio.ensure_future(
                deliver(
                    [delivery(n) for n in range(10)],
                    destination(url, concurrency=3),
                    record=rows.append,
                    begin=lambda some: begun.extend(one.message_id for one in some),
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
