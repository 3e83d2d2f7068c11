"""Real local servers to deliver to, and a short way to deliver to them."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.workers.nodes import RecordingNode
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery, Tally
from workers.delivery.http.exchange import HttpDestination

LOCAL = NetworkGuard(allow_loopback=True)
Answerer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def delivery(message_id: int = 1, **changes: Any) -> Delivery:
    """Return a delivery to destination 1."""
    fields: dict[str, Any] = {
        "message_id": message_id,
        "attempt_number": 1,
        "destination_id": 1,
        "address": "orders.eu",
        "producer_message_id": f"m-{message_id}",
        "content_type": "application/json",
        "headers": {},
        "payload": b'{"n": 1}',
    }
    return Delivery(**(fields | changes))


def destination(url: str, destination_id: int = 1, **changes: Any) -> HttpDestination:
    """Return an HTTP destination with a short timeout."""
    fields: dict[str, Any] = {"id": destination_id, "name": f"sink-{destination_id}", "url": url, "timeout_ms": 5000}
    return HttpDestination(**(fields | changes))


@dataclass(frozen=True)
class Summary:
    """The sums over the destinations of a run, and the counts of each."""

    by_destination: dict[int, Tally]
    begun: int
    delivered: int
    failed: int
    not_begun: int


def summary_of(tallies: dict[int, Tally]) -> Summary:
    """Return the summary of a run."""
    names = ("begun", "delivered", "failed", "not_begun")
    return Summary(tallies, **{name: sum(getattr(tally, name) for tally in tallies.values()) for name in names})


@dataclass
class Delivered:
    """What a run left behind."""

    summary: Summary
    rows: list[AttemptRecord]

    @property
    def row(self) -> AttemptRecord:
        """The only outcome."""
        (only,) = self.rows
        return only


async def deliver(deliveries: Iterable[Delivery], *to: HttpDestination, **options: Any) -> Delivered:
    """Deliver within a minute unless the test says otherwise; `options`: of the node, and `guard`, `lookup`."""
    network = {"guard": LOCAL} | {name: options.pop(name) for name in ("guard", "lookup") if name in options}
    node = RecordingNode(**options)
    tallies = await deliver_all(deliveries, {each.id: each for each in to}, node, **network)
    return Delivered(summary_of(tallies), node.rows)


@dataclass
class Seen:
    """The requests that a sink has had, and the times they came in."""

    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


async def accept(request: web.Request) -> web.StreamResponse:
    """Answer 200."""
    return web.Response(text="ok")


class HoldingSink:
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


@contextlib.asynccontextmanager
async def http_sink(
    answer: Answerer = accept, *, seen: Seen | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Yield the URL of a server that answers as told."""

    async def keep_and_answer(request: web.Request) -> web.StreamResponse:
        if seen is not None:
            seen.times.append(time.monotonic())
            seen.requests.append(request)
            seen.bodies.append(await request.read())
        return await answer(request)

    app = web.Application(client_max_size=256 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", keep_and_answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/hook"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def raw_sink(connection: Connection) -> AsyncIterator[str]:
    """Yield the URL of a server that does with a connection whatever `connection` does."""

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await connection(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(run, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        server.close()
        await server.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request's head and its body of the stated length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    return head + await reader.readexactly(length)


def saying(answer: bytes) -> Connection:
    """Return a server that reads one request, writes these bytes and closes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return talk


def closed_port() -> int:
    """Return a port where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def outcome_of_connection(connection: Connection, **settings: Any) -> AttemptRecord:
    """Deliver one message to a server that does with its connection whatever `connection` does."""

    async def run() -> AttemptRecord:
        async with raw_sink(connection) as url:
            return (await deliver([delivery()], destination(url, **settings))).row

    return asyncio.run(run())
