"""A server that misbehaves costs one attempt, within its time limit; the failure says why, and nothing is left."""

import asyncio
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable

import pytest

from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.workers.sinks import Connection, deliver, delivery, destination, raw_sink, read_request
from workers.delivery.http.exchange import KEPT_BYTES
from workers.delivery.http.reader import MAX_FIELDS, MAX_HEAD_BYTES, MAX_INTERIM_ANSWERS

TIMEOUT_MS = 600
# What a busy machine may add.
LATE_SECONDS = 10.0
OK = b"HTTP/1.1 200 OK\r\n"
BAD = b"HTTP/1.1 500 Oh\r\n"


def outcome_of(behaviour: Connection, payload: bytes = b"{}") -> AttemptRecord:
    """Return what one delivery comes to; fail if it takes longer than it may, or leaves a task or a socket behind."""

    async def run() -> tuple[AttemptRecord, int]:
        async with raw_sink(behaviour) as url:
            before = _sockets()
            begun = time.monotonic()
            row = (await deliver([delivery(payload=payload)], destination(url, timeout_ms=TIMEOUT_MS))).row
            assert time.monotonic() - begun < TIMEOUT_MS / 1000 + LATE_SECONDS
            # The server's own side of the connection takes a moment to notice.
            for _ in range(100):
                if (left := _sockets() - before) <= 0 and len(asyncio.all_tasks()) == 1:
                    break
                await asyncio.sleep(0.01)
            assert len(asyncio.all_tasks()) == 1
            return row, left

    row, left = asyncio.run(run())
    assert left <= 0
    return row


def _sockets() -> int:
    """Return how many sockets this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return found


def answering(*pieces: bytes, then: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None) -> Connection:
    """Return a server that answers in these pieces; then it closes, or does what `then` does."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        if then is not None:
            await then(writer)
            await reader.read()
        writer.close()

    return talk


async def wait(_writer: asyncio.StreamWriter) -> None:
    """Say nothing more, and leave the connection open."""


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"220 mail.example ESMTP\r\n", "does not begin with HTTP/1"),
        (b"\r\n\r\n" + OK + b"\r\n", "does not begin with HTTP/1"),
        (b"garbage" + OK + b"Content-Length: 0\r\n\r\n", "does not begin with HTTP/1"),
        (b"<html>an answer of HTTP/0.9</html>", "does not begin with HTTP/1"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "does not begin with HTTP/1"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "does not begin with HTTP/1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "does not begin with HTTP/1"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "malformed"),
        (b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK\r\n\r\n", "malformed"),
        (OK + b"X: 1\r\n folded\r\n\r\n", "malformed"),
        (OK + b" X: 1\r\n\r\n", "malformed"),
        (OK + b"X : 1\r\n\r\n", "malformed"),
        (OK + b"X: a\0b\r\n\r\n", "malformed"),
        (OK + b"X: a\rY: b\r\n\r\n", "malformed"),
        (OK + b": 1\r\n\r\n", "malformed"),
        (OK + b"Content-Length: -1\r\n\r\n", "Content-Length of the answer is not a number"),
        (OK + b"Content-Length: +1\r\n\r\n", "Content-Length of the answer is not a number"),
        (OK + b"Content-Length: 1e3\r\n\r\n", "Content-Length of the answer is not a number"),
        (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "Content-Length of the answer is not a number"),
        (OK + b"Content-Length: 2, 2\r\n\r\nab", "Content-Length of the answer is not a number"),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nab", "more than one Content-Length"),
        (
            OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "both Content-Length and Transfer-Encoding",
        ),
        (OK + b"X: y\r\n" * (MAX_FIELDS + 1) + b"\r\n", f"more than {MAX_FIELDS} header fields"),
        (OK + b"X: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n", f"longer than {MAX_HEAD_BYTES} bytes"),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * (MAX_INTERIM_ANSWERS + 1),
            f"more than {MAX_INTERIM_ANSWERS} interim answers",
        ),
    ],
)
def test_an_answer_that_is_not_http_is_refused_at_once(answer: bytes, says: str) -> None:
    row = outcome_of(answering(answer, then=wait))
    assert (row.outcome, row.error_class, row.status_code) == ("failed", "HttpProtocolError", None)
    assert row.error_message is not None
    assert says in row.error_message


def endless(beginning: bytes, piece: bytes) -> Connection:
    """Return a server that goes on and on."""

    async def pour(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(piece)
            await writer.drain()

    return answering(beginning, then=pour)


@pytest.mark.parametrize(
    "behaviour",
    [
        endless(OK, b"X: y\r\n" * 1000),
        endless(OK + b"X: ", b"y" * 10_000),
        endless(b"", b"HTTP/1.1 102 Wait\r\n\r\n" * 1000),
    ],
)
def test_a_head_without_an_end_is_refused(behaviour: Connection) -> None:
    assert outcome_of(behaviour).error_class == "HttpProtocolError"


@pytest.mark.parametrize("beginning", [OK, b"H", OK + b"Content-Len", b"HTTP/1.1 100 Continue\r\n\r\n", b""])
def test_a_head_that_does_not_go_on_is_a_timeout(beginning: bytes) -> None:
    row = outcome_of(answering(beginning, then=wait))
    assert row.error_class == "HttpTimeout"


def test_a_head_byte_by_byte_is_read_for_as_long_as_there_is_time() -> None:
    whole = OK + b"Content-Length: 2\r\n\r\nok"

    async def drip(writer: asyncio.StreamWriter) -> None:
        for byte in OK + b"X: " + b"y" * 1_000_000:
            if writer.is_closing():
                return
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)

    assert outcome_of(answering(*(bytes([byte]) for byte in whole[:20]), whole[20:])).outcome == "delivered"
    assert outcome_of(answering(then=drip)).error_class == "HttpTimeout"


@pytest.mark.parametrize("beginning", [b"", OK, b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_end_before_the_answer_is_a_lost_connection(beginning: bytes) -> None:
    assert outcome_of(answering(beginning)).error_class == "HttpConnectionReset"


async def reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def half_close(writer: asyncio.StreamWriter) -> None:
    """Close this direction and leave the other one open."""
    writer.write_eof()


@pytest.mark.parametrize("end", [reset, half_close])
def test_a_connection_that_is_reset_or_half_closed_is_lost(
    end: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> None:
    row = outcome_of(answering(then=end))
    assert row.error_class == "HttpConnectionReset"


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        ([CHUNKED, b"2\r\nab\r\n", b"zz\r\n"], b"ab"),
        ([CHUNKED + b"2\r\nab\r\nzz\r\n"], None),
        ([CHUNKED, b"-2\r\nab\r\n"], None),
        ([CHUNKED, b"0x2\r\nab\r\n"], None),
        ([CHUNKED, b"2\r\nabcd\r\n0\r\n\r\n"], None),
        ([CHUNKED, b"ffffffffffffffffff\r\nab"], None),
        ([CHUNKED, b"2;" + b"e" * 100_000], None),
        ([CHUNKED, b"2\r\nab\r\n"], b"ab"),
        ([b"Content-Length: 9\r\n\r\n", b"ab"], b"ab"),
        ([b"Content-Length: 2\r\n\r\n", b"abcd"], b"ab"),
        ([b"Connection: close\r\n\r\n", b"ab"], b"ab"),
        ([b"Content-Encoding: gzip\r\n\r\n" + b"\x1f\x8b\x08" * 3000], (b"\x1f\x8b\x08" * 3000)[:KEPT_BYTES]),
    ],
)
@pytest.mark.parametrize("status", [OK, BAD])
def test_the_status_decides_whatever_becomes_of_the_body(
    status: bytes, pieces: list[bytes], kept: bytes | None
) -> None:
    row = outcome_of(answering(status + pieces[0], *pieces[1:]))
    assert row.outcome == ("delivered" if status == OK else "failed")
    assert row.status_code == (200 if status == OK else 500)
    if status == BAD and kept is not None:
        assert row.response == kept


@pytest.mark.parametrize(
    "behaviour",
    [
        endless(BAD + CHUNKED, b"1\r\na\r\n" * 1000),
        endless(BAD + CHUNKED + b"0\r\n", b"X: y\r\n" * 1000),
        endless(BAD + b"Connection: close\r\n\r\n", b"y" * 10_000),
        answering(BAD + b"Content-Length: 5\r\n\r\nab", then=wait),
        answering(BAD + CHUNKED + b"5\r\nab", then=wait),
    ],
)
def test_a_body_without_an_end_is_cut(behaviour: Connection) -> None:
    row = outcome_of(behaviour)
    assert (row.error_class, row.status_code) == ("HttpStatusError", 500)


def test_an_upgrade_that_nobody_asked_for_is_a_failure() -> None:
    row = outcome_of(answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nxyz", then=wait))
    assert (row.error_class, row.status_code) == ("HttpStatusError", 101)


def test_an_answer_before_the_whole_request_was_read_counts() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await asyncio.sleep(TIMEOUT_MS / 2000)

    row = outcome_of(refuse, payload=b"x" * 16_000_000)
    assert (row.status_code, row.response) == (413, b"big")
