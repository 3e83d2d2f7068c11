"""Where a lost connection counts as a crash (`crash_on`), it is one, and every other failure stays a failure."""

import asyncio

import pytest

from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.workers.sinks import deliver, delivery, destination, raw_sink, read_request


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the request and close the connection without a word, as a process does that dies."""
    await read_request(reader)
    writer.transport.abort()


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer 500."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")


def outcome_of(behaviour: object, crash_on: str | None) -> AttemptRecord:
    """Return what one delivery comes to."""

    async def one() -> AttemptRecord:
        async with raw_sink(behaviour) as url:  # type: ignore[arg-type]
            return (await deliver([delivery()], destination(url, crash_on=crash_on))).row

    return asyncio.run(one())


@pytest.mark.parametrize(
    ("behaviour", "crash_on", "expected"),
    [
        (hang_up, "connection_lost", ("crashed", "ConsumerConnectionLost")),
        (hang_up, None, ("failed", "HttpConnectionReset")),
        (refuse, "connection_lost", ("failed", "HttpStatusError")),
    ],
)
def test_a_lost_connection_is_a_crash_where_it_is_said_to_be(
    behaviour: object, crash_on: str | None, expected: tuple[str, str]
) -> None:
    row = outcome_of(behaviour, crash_on)
    assert (row.outcome, row.error_class) == expected
    assert row.fingerprint
