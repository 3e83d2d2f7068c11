"""A consumer that fails as it is told and remembers what reached it, in a thread of its own."""

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True)
class Arrival:
    """One request. `at`: wall-clock seconds; `status`: what was answered, 0 where no answer was given."""

    message_id: int
    attempt: int
    address: str
    at: float
    status: int
    body: bytes
    producer_id: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_taken(self) -> bool:
        """Return whether the consumer has accepted the message."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Request:
    """What a behaviour decides on: which message, which attempt, to which address, the how-manieth of this message."""

    message_id: int
    attempt: int
    address: str
    producer_id: str
    body: bytes
    nth: int


@dataclass(frozen=True)
class Answer:
    """How to answer: after `seconds`, with `status`; 0 breaks the connection off without a word."""

    status: int = 200
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


Behaviour = Callable[[Request], Answer]


def takes(_: Request) -> Answer:
    """Accept everything at once."""
    return Answer()


def refuses(_: Request) -> Answer:
    """Accept nothing, ever."""
    return Answer(503)


def failing(times: int, status: int = 503) -> Behaviour:
    """Return a consumer that fails each message so many times, then accepts it."""
    return lambda request: Answer(status if request.nth <= times else 200)


class Consumer:
    """An HTTP server on a free port of the loopback interface. `behaviour` may be replaced at any time."""

    def __init__(self, behaviour: Behaviour = takes, *, tls: ssl.SSLContext | None = None) -> None:
        self.behaviour = behaviour
        self.under_way = 0
        self.arrivals: list[Arrival] = []
        self._seen: dict[int, int] = {}
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)
        self._thread.start()
        assert self._started.wait(10)

    def of(self, address: str) -> list[Arrival]:
        """Return what came for an address, in the order of arrival."""
        return [one for one in list(self.arrivals) if one.address == address]

    def stop(self) -> None:
        """End the server; connections that are open are broken off."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._started.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        app = web.Application(client_max_size=80 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls, backlog=4096).start()
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def _end(self) -> None:
        await self._runner.cleanup()
        # A handler that is slow on purpose outlives the server.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        at = time.time()
        message_id = int(request.headers["PoisonAdmin-Message-Id"])
        self._seen[message_id] = nth = self._seen.get(message_id, 0) + 1
        asked = Request(
            message_id=message_id,
            attempt=int(request.headers["PoisonAdmin-Attempt"]),
            address=request.headers["PoisonAdmin-Address"],
            producer_id=request.headers.get("PoisonAdmin-Producer-Message-Id", ""),
            body=await request.read(),
            nth=nth,
        )
        answer = self.behaviour(asked)
        self.under_way += 1
        try:
            # Written down before the answer is sent: a sender that dies now has been taken at its word all the same.
            self.arrivals.append(
                Arrival(
                    message_id,
                    asked.attempt,
                    asked.address,
                    at,
                    answer.status,
                    asked.body,
                    asked.producer_id,
                    request.headers.copy(),
                )
            )
            await asyncio.sleep(answer.seconds)
            if answer.status == 0 and request.transport is not None:
                request.transport.abort()
            return web.json_response({"attempt": asked.attempt}, status=answer.status or 500, headers=answer.headers)
        finally:
            self.under_way -= 1


@contextlib.contextmanager
def consuming(behaviour: Behaviour = takes, *, tls: ssl.SSLContext | None = None) -> Iterator[Consumer]:
    """Run a consumer meanwhile."""
    consumer = Consumer(behaviour, tls=tls)
    try:
        yield consumer
    finally:
        consumer.stop()
