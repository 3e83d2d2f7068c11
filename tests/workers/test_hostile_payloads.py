"""What comes in is what goes out to an HTTP destination, byte for byte."""

import asyncio

import pytest

from tests.hostile_payloads import PAYLOADS
from tests.workers.sinks import Seen, deliver, delivery, destination, http_sink

LONGEST = 64 * 1024 * 1024


def delivered(payloads: list[bytes]) -> list[bytes]:
    """Deliver the payloads one after the other; return the bodies that came."""

    async def run() -> list[bytes]:
        seen = Seen()
        async with http_sink(seen=seen) as url:
            deliveries = [delivery(n, payload=payload) for n, payload in enumerate(payloads, start=1)]
            done = await deliver(deliveries, destination(url, concurrency=1, timeout_ms=60_000))
        assert {row.outcome for row in done.rows} == {"delivered"}
        return seen.bodies

    return asyncio.run(run())


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_hostile_payload_arrives_as_it_came_in(name: str) -> None:
    assert delivered([PAYLOADS[name]]) == [PAYLOADS[name]]


def test_hostile_payloads_over_one_connection_are_kept_apart() -> None:
    assert delivered(list(PAYLOADS.values())) == list(PAYLOADS.values())


def test_one_line_of_the_greatest_length_arrives_whole() -> None:
    payload = b'{"a": "' + b"x" * (LONGEST - 9) + b'"}'
    assert delivered([payload]) == [payload]
