"""An ordered conversation in one shard: one after the other, and nothing behind the first that does not arrive."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from poisonadmin.rules.domain.content_rules import FilterDecision
from poisonadmin.rules.domain.rules import Before
from tests.workers.sandboxes import handle
from tests.workers.sinks import Delivered, deliver, delivery, destination, http_sink


def delivered(statuses: dict[int, int], chains: Sequence[int | None]) -> tuple[Delivered, list[int], int]:
    """Deliver messages 1, 2, 3 … with these chains; return what it came to, the order, and how many were at once."""
    order: list[int] = []
    at_once = [0, 0]

    async def answer(request: web.Request) -> web.StreamResponse:
        number = int(request.headers["PoisonAdmin-Message-Id"])
        order.append(number)
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0.02)
        at_once[0] -= 1
        return web.Response(status=statuses.get(number, 200))

    async def run() -> Delivered:
        async with http_sink(answer) as url:
            return await deliver([delivery(n, chain=chain) for n, chain in enumerate(chains, 1)], destination(url))

    done = asyncio.run(run())
    return done, order, at_once[1]


def test_a_chain_is_delivered_one_after_the_other() -> None:
    done, order, at_once = delivered({}, [7] * 8)
    assert order == list(range(1, 9))
    assert at_once == 1
    assert done.summary.delivered == 8


def test_chains_and_loose_messages_do_not_wait_for_each_other() -> None:
    done, order, at_once = delivered({}, [1, 1, 2, 2, None, None])
    assert done.summary.delivered == 6
    assert at_once > 1
    assert order.index(1) < order.index(2)
    assert order.index(3) < order.index(4)


def test_a_failure_ends_its_chain_and_no_other() -> None:
    done, order, _ = delivered({2: 500}, [1, 1, 1, 2, 2])
    assert sorted(order) == [1, 2, 4, 5]
    assert {row.message_id: row.outcome for row in done.rows} == {
        1: "delivered",
        2: "failed",
        4: "delivered",
        5: "delivered",
    }
    assert done.summary.not_begun == 1


def test_a_chain_in_sandboxes_stops_at_a_crash(tmp_path: Path) -> None:
    handled = handle(["ok", "discard", "kill SIGKILL", "ok", "ok"], tmp_path, chain=4)
    assert handled.outcomes() == {1: "delivered", 2: "discarded", 3: "crashed"}
    assert handled.summary is not None
    assert handled.summary.not_begun == 2


def ruled(do: Before) -> FilterDecision:
    """Return what a content rule has decided."""
    return FilterDecision(4, "a rule", do, "orders.odd" if do is Before.REDIRECT else None, ())


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        (Before.REJECT, {1: "delivered", 2: "ruled"}),
        (Before.DISCARD, {1: "delivered", 2: "ruled", 3: "delivered"}),
        (Before.REDIRECT, {1: "delivered", 2: "ruled", 3: "delivered"}),
    ],
)
def test_what_a_rule_keeps_from_delivery_holds_its_chain_only_when_it_stays(
    do: Before, expected: dict[int, str]
) -> None:
    async def run() -> Delivered:
        async with http_sink() as url:
            some = [delivery(n, chain=7, decision=ruled(do) if n == 2 else None) for n in (1, 2, 3)]
            return await deliver(some, destination(url))

    done = asyncio.run(run())
    assert {row.message_id: row.outcome for row in done.rows} == expected
    tally = done.summary.by_destination[1]
    assert (tally.ruled, tally.begun, tally.failed) == (1, len(expected) - 1, 0)
    assert tally.not_begun == 3 - len(expected)
    kept = next(row for row in done.rows if row.message_id == 2)
    assert (kept.rule_id, kept.rule_action, kept.started_at) == (4, str(do), None)
    assert kept.error_message == f"rule a rule: {do}"


def test_a_rule_s_decision_waits_for_what_is_before_it_in_its_chain() -> None:
    async def run() -> Delivered:
        async with http_sink(refusing) as url:
            some = [delivery(1, chain=7), delivery(2, chain=7, decision=ruled(Before.DISCARD))]
            return await deliver(some, destination(url))

    done = asyncio.run(run())
    assert [row.outcome for row in done.rows] == ["failed"], "the second is left for later"


async def refusing(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500)
