"""Three HTTP consumers in one process, to deliver to: `python -m sample.consumers [--base-port N]`."""

import argparse
import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from sample.ports import CONSUMERS, base_port

SUMMARY_SECONDS = 15

Answer = Callable[[web.Request, str, int], Awaitable[web.StreamResponse]]


@dataclass
class Consumer:
    """One consumer: how it answers, and what it has answered since the last summary."""

    name: str
    answers: Counter[int] = field(default_factory=Counter)
    is_fixed: bool = False

    def summary(self) -> str | None:
        """Return one line on what was answered since the last one, None when it was nothing."""
        if not self.answers:
            return None
        counts = ", ".join(f"{status or 'lost'} x {count}" for status, count in sorted(self.answers.items()))
        self.answers.clear()
        return f"{self.name}: {counts}"


@dataclass(frozen=True)
class Mood:
    """How the flaky consumer treats one kind of event: `status` (0: the connection is lost) until try `good_from`."""

    good_from: int
    status: int = 503
    seconds: float = 0.0
    retry_after: int | None = None
    detail: str = "Service temporarily unavailable"


NEVER = 1_000_000
MOODS = {
    "issues": Mood(good_from=3, retry_after=2, detail="Upstream connect error: connection pool exhausted"),
    "issue_comment": Mood(good_from=2, status=500, detail="deadlock detected while updating table comments"),
    "check_run": Mood(good_from=2, status=0),
    "check_suite": Mood(good_from=2, status=502, detail="Bad gateway"),
    "push": Mood(good_from=2, status=200, seconds=6.0),
    "deployment_status": Mood(good_from=5, status=500, detail="lock wait timeout exceeded, try restarting transaction"),
    "marketplace_purchase": Mood(good_from=NEVER, retry_after=20, detail="billing is closed for maintenance"),
}
SLOW_SECONDS = {"workflow_job": 2.5, "workflow_run": 2.5}

REFUSALS = {
    "pull_request": ("validation_failed", "pull_request.head.repo must not be null", "pull_request.head.repo"),
    "release": ("unsupported_tag", "release.tag_name does not follow semantic versioning", "release.tag_name"),
    "dependabot_alert": ("unknown_severity", "alert.severity is not one of low, high, critical", "alert.severity"),
    "security_advisory": ("schema_mismatch", "vulnerabilities[0].package has no ecosystem", "vulnerabilities"),
}


async def healthy(_request: web.Request, _event: str, _attempt: int) -> web.StreamResponse:
    """Take everything."""
    return web.json_response({"accepted": True})


async def flaky(request: web.Request, event: str, attempt: int) -> web.StreamResponse:
    """Fail until the nth try, by event type; be slow with some."""
    await asyncio.sleep(SLOW_SECONDS.get(event, 0.0))
    mood = MOODS.get(event)
    if mood is None or attempt >= mood.good_from:
        return web.json_response({"accepted": True, "attempt": attempt})
    await asyncio.sleep(mood.seconds)
    if mood.status == 0 and request.transport is not None:
        request.transport.abort()
        return web.Response(status=500)
    headers = {} if mood.retry_after is None else {"Retry-After": str(mood.retry_after)}
    return web.json_response({"error": mood.detail}, status=mood.status, headers=headers)


def rejecting(consumer: Consumer) -> Answer:
    """Return the answers of a consumer that refuses some events until it is fixed."""

    async def answer(_request: web.Request, event: str, _attempt: int) -> web.StreamResponse:
        if consumer.is_fixed or event not in REFUSALS:
            return web.json_response({"accepted": True})
        code, message, where = REFUSALS[event]
        problem = {"error": code, "message": message, "field": where, "documentation": f"/docs/events/{event}"}
        return web.json_response(problem, status=422)

    return answer


def application(consumer: Consumer) -> web.Application:
    """Return the consumer as a web application; `POST /__fixed` and `/__broken` change how it answers."""
    answer = {"healthy": healthy, "flaky": flaky, "rejecting": rejecting(consumer)}[consumer.name]

    async def consume(request: web.Request) -> web.StreamResponse:
        event = request.headers.get("PoisonAdmin-Address", "").rpartition(".")[2]
        await request.read()
        response = await answer(request, event, int(request.headers.get("PoisonAdmin-Attempt", "1")))
        is_lost = request.transport is None or request.transport.is_closing()
        consumer.answers[0 if is_lost else response.status] += 1
        return response

    def switch(*, is_fixed: bool) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def turn(_request: web.Request) -> web.StreamResponse:
            consumer.is_fixed = is_fixed
            say(f"{consumer.name}: {'fixed, takes everything' if is_fixed else 'broken again'}")
            return web.json_response({"consumer": consumer.name, "fixed": is_fixed})

        return turn

    app = web.Application(client_max_size=80 * 1024 * 1024)
    app.router.add_post("/__fixed", switch(is_fixed=True))
    app.router.add_post("/__broken", switch(is_fixed=False))
    app.router.add_post("/{path:.*}", consume)
    return app


def say(line: str) -> None:
    """Print a line at once: the supervisor shows it beside those of the other processes."""
    print(line, flush=True)


async def serve(base: int, stop: asyncio.Event) -> None:
    """Run the three consumers on ports from `base` on until `stop`; raise OSError when a port is taken."""
    consumers = [Consumer(name) for name in CONSUMERS]
    runners = []
    try:
        for offset, consumer in enumerate(consumers):
            runner = web.AppRunner(application(consumer), access_log=None, shutdown_timeout=1)
            await runner.setup()
            runners.append(runner)
            await web.TCPSite(runner, "127.0.0.1", base + offset).start()
        say(f"three consumers listen on 127.0.0.1:{base} (healthy), {base + 1} (flaky), {base + 2} (rejecting)")
        while not stop.is_set():
            await _either(stop, SUMMARY_SECONDS)
            for consumer in consumers:
                if line := consumer.summary():
                    say(line)
    finally:
        for runner in runners:
            await runner.cleanup()


async def _either(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


async def _main(base: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    await serve(base, stop)


def main() -> int:
    """Run until told to stop; a taken port is one line that names it."""
    parser = argparse.ArgumentParser(prog="python -m sample.consumers", description=__doc__)
    parser.add_argument("--base-port", type=int, default=base_port(os.environ), help="the first of three ports")
    base = parser.parse_args().base_port
    try:
        asyncio.run(_main(base))
    except OSError as error:
        sys.stderr.write(
            f"The sample's consumers need the ports {base} to {base + 2}: {error.strerror or error}. "
            "Choose others with POISONADMIN_SAMPLE_PORT.\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
