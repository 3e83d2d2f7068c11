"""Connections: kept while both sides want it, never used for what somebody else may read, tried address by address."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.workers.sinks import (
    LOCAL,
    Delivered,
    deliver,
    delivery,
    destination,
    http_sink,
    raw_sink,
    read_request,
)
from workers.delivery.http import connection
from workers.delivery.http.connection import KEEP_ALIVE_SECONDS, connected_socket, tls_context

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answering = Callable[[asyncio.StreamWriter, int], Awaitable[None]]


def served(answer: Answering, count: int = 2, pause: float = 0.0, **settings: Any) -> tuple[Delivered, list[int]]:
    """Deliver one after the other; return what came of it, and for each connection how many requests it had."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        here = len(connections) - 1
        while True:
            await read_request(reader)
            connections[here] += 1
            await answer(writer, connections[here])
            if writer.is_closing():
                return

    async def run() -> Delivered:
        async with raw_sink(serve) as url:
            start = asyncio.get_running_loop().time()
            slots = [delivery(n, start_at=start + n * pause if pause else None) for n in range(count)]
            now = asyncio.get_running_loop().time
            return await deliver(slots, destination(url, **({"concurrency": 1} | settings)), now=now)

    return asyncio.run(run()), connections


def saying(text: bytes) -> Answering:
    """Return what writes this as each answer."""

    async def answer(writer: asyncio.StreamWriter, _number: int) -> None:
        writer.write(text)
        await writer.drain()

    return answer


@pytest.mark.parametrize(
    ("text", "connections"),
    [
        (OK, [3]),
        (OK.replace(b"\r\n", b"\n"), [3]),
        (b"HTTP/1.1 204 No\r\n\r\n", [3]),
        (b"HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n", [3]),
        (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK, [3]),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n", [3]),
        (b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno", [3]),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", [3]),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", [1, 1, 1]),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", [1, 1, 1]),
        (OK + b"surplus", [1, 1, 1]),
        (OK + OK, [1, 1, 1]),
        (b"HTTP/1.1 204 No\r\n\r\nbody", [1, 1, 1]),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000, [1, 1, 1]),
    ],
)
def test_a_connection_is_used_again_where_both_sides_want_it(text: bytes, connections: list[int]) -> None:
    done, seen = served(saying(text), count=3)
    assert len(done.rows) == 3
    assert {row.error_class for row in done.rows} <= {None, "HttpStatusError"}
    assert seen == connections


def test_what_comes_unasked_on_an_idle_connection_closes_it() -> None:
    async def answer(writer: asyncio.StreamWriter, _number: int) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.05)
        # The answer to a request that has not been sent yet.
        writer.write(b"HTTP/1.1 500 Planted\r\nContent-Length: 0\r\n\r\n")

    done, seen = served(answer, count=3, pause=0.2)
    assert [row.outcome for row in done.rows] == ["delivered"] * 3
    assert seen == [1, 1, 1]


def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used() -> None:
    async def answer(writer: asyncio.StreamWriter, _number: int) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    done, seen = served(answer, count=3, pause=0.2)
    assert [row.outcome for row in done.rows] == ["delivered"] * 3
    assert seen == [1, 1, 1]


def test_an_idle_connection_is_closed_before_the_server_does() -> None:
    done, seen = served(saying(OK), count=2, pause=KEEP_ALIVE_SECONDS + 0.3)
    assert [row.outcome for row in done.rows] == ["delivered"] * 2
    assert seen == [1, 1]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_kept_connection_that_is_lost_with_a_request_costs_the_attempt_and_sends_nothing_twice(method: str) -> None:
    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        if number == 1:
            writer.write(OK)
            await writer.drain()
        else:
            writer.close()

    done, seen = served(answer, count=2, method=method, crash_on="connection_lost")
    assert [row.outcome for row in done.rows] == ["delivered", "crashed"]
    assert seen == [2]


def test_a_connection_lost_in_the_tls_handshake_is_no_crash_since_nothing_was_sent() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.transport.abort()

    async def run() -> Delivered:
        async with raw_sink(hang_up) as url:
            to = destination(url.replace("http:", "https:"), crash_on="connection_lost")
            return await deliver([delivery()], to)

    row = asyncio.run(run()).row
    assert (row.outcome, row.error_class) == ("failed", "HttpConnectionError")


def lookup_of(*addresses: str) -> Any:
    """Return a name server that gives these addresses."""

    async def lookup(_host: str, port: int, _family: int) -> list[tuple[Any, ...]]:
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in addresses
        ]

    return lookup


@pytest.mark.parametrize("addresses", [("127.0.0.2", "127.0.0.1"), ("::1", "127.0.0.1"), ("127.0.0.1", "::1")])
def test_the_next_address_is_tried_where_one_refuses(addresses: tuple[str, ...]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await writer.drain()

    async def run() -> Delivered:
        async with raw_sink(serve) as url:
            named = url.replace("127.0.0.1", "hooks.example")
            return await deliver([delivery()], destination(named), lookup=lookup_of(*addresses))

    assert asyncio.run(run()).row.outcome == "delivered"


def test_an_address_that_is_silent_is_overtaken_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_START_SECONDS", 0.05)
    made: list[socket.socket] = []

    def make(info: Any) -> socket.socket:
        made.append(socket.socket(*info[:3]))
        return made[-1]

    async def run() -> int:
        with socket.socket() as full, socket.socket() as ready, socket.socket() as filler:
            full.bind(("127.0.0.2", 0))
            full.listen(0)
            filler.connect(full.getsockname())
            ready.bind(("127.0.0.1", 0))
            ready.listen()
            # Linux takes one more connection than the backlog says, and drops the next one's packets.
            to = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each.getsockname()) for each in (full, full, ready)]
            with await asyncio.wait_for(connected_socket(to, make), 5) as connected:
                port: int = connected.getpeername()[1]
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert port in (full.getsockname()[1], ready.getsockname()[1])
                return sum(each.fileno() >= 0 for each in made)

    assert asyncio.run(run()) == 1


def test_where_no_address_connects_the_first_ones_error_is_told() -> None:
    async def run() -> Delivered:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://hooks.example:{taken.getsockname()[1]}/"
            return await deliver(
                [delivery()], destination(url), lookup=lookup_of("127.0.0.1", "127.0.0.2"), guard=LOCAL
            )

    assert asyncio.run(run()).row.error_class == "HttpConnectionRefused"


@pytest.mark.parametrize(
    ("certified", "expected"),
    [("hooks.example", None), ("other.example", "HttpTlsError"), ("127.0.0.1", "HttpTlsError")],
)
def test_the_certificate_is_to_be_the_names_and_not_the_addresses(
    certified: str, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls_context.cache_clear()
    asked: list[str | None] = []
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(certified).configure_cert(server)
    server.sni_callback = lambda _connection, name, _context: asked.append(name)

    async def run() -> Delivered:
        async with http_sink(tls=server) as url:
            named = url.replace("127.0.0.1", "hooks.example")
            return await deliver([delivery()], destination(named), lookup=lookup_of("127.0.0.1"))

    try:
        row = asyncio.run(run()).row
    finally:
        tls_context.cache_clear()
    assert row.error_class == expected
    assert asked == ["hooks.example"]
    if expected is not None:
        assert row.error_message is not None
        assert "hooks.example" in row.error_message


def test_an_ipv6_address_and_its_port_are_named_as_urls_write_them() -> None:
    async def run() -> tuple[Delivered, list[str]]:
        hosts: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            hosts.append((await read_request(reader)).split(b"\r\n")[1].decode())
            writer.write(OK)
            await writer.drain()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "::1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            done = await deliver([delivery()], destination(f"http://[::1]:{port}/"))
        return done, [host.replace(str(port), "PORT") for host in hosts]

    done, hosts = asyncio.run(run())
    assert done.row.outcome == "delivered"
    assert hosts == ["Host: [::1]:PORT"]


def test_a_connection_is_not_used_again_while_its_last_request_is_not_written() -> None:
    connections = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.5)

    async def run() -> Delivered:
        async with raw_sink(refuse) as url:
            large = [delivery(n, payload=b"x" * size) for n, size in enumerate((16_000_000, 16_000_000, 10))]
            return await deliver(large, destination(url, concurrency=1))

    done = asyncio.run(run())
    assert [row.status_code for row in done.rows] == [413] * 3
    assert connections == 3
