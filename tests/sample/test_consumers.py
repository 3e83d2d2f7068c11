"""How the sample's consumers answer, asked over HTTP as deliveries ask them."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from sample.consumers import serve
from sample.ports import base_port, urls

PROJECT = Path(__file__).resolve().parents[2]


def three_free_ports() -> int:
    """Return the first of three neighbouring ports where nothing listens."""
    while True:
        with contextlib.ExitStack() as held:
            first = held.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            base = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                for port in (base + 1, base + 2):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return base


class Asking:
    """Asks the consumers as a delivery does."""

    def __init__(self, session: aiohttp.ClientSession, base: int) -> None:
        self._session = session
        self._urls = urls(base)
        self._base = base

    async def __call__(self, consumer: str, event: str, attempt: int = 1) -> tuple[int, dict[str, str], object]:
        """Return status, headers and body; status 0 when the connection was lost."""
        headers = {"PoisonAdmin-Address": f"github.{event}", "PoisonAdmin-Attempt": str(attempt)}
        try:
            async with self._session.post(self._urls[consumer], json={}, headers=headers) as response:
                return response.status, dict(response.headers), await response.json()
        except aiohttp.ServerDisconnectedError:
            return 0, {}, None

    async def switch(self, word: str) -> None:
        """Fix or break the rejecting consumer."""
        async with self._session.post(f"http://127.0.0.1:{self._base + 2}/__{word}") as response:
            assert response.status == 200


@contextlib.asynccontextmanager
async def consumers() -> AsyncIterator[Asking]:
    base, stop = three_free_ports(), asyncio.Event()
    serving = asyncio.create_task(serve(base, stop))
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.post(f"http://127.0.0.1:{base + 2}/__broken"):
                    break
            await asyncio.sleep(0.01)
        yield Asking(session, base)
    stop.set()
    await serving


def ask(questions: Callable[[Asking], object]) -> object:
    async def run() -> object:
        async with consumers() as asking:
            return await questions(asking)

    return asyncio.run(run())


def test_the_healthy_consumer_takes_everything():
    assert ask(lambda asking: asking("healthy", "pull_request"))[0] == 200


@pytest.mark.parametrize(
    ("event", "good_from", "status"),
    [("issues", 3, 503), ("issue_comment", 2, 500), ("check_run", 2, 0), ("deployment_status", 5, 500)],
)
def test_the_flaky_consumer_fails_until_the_nth_try(event, good_from, status):
    async def questions(asking):
        return [(await asking("flaky", event, attempt))[0] for attempt in range(1, good_from + 1)]

    assert ask(questions) == [status] * (good_from - 1) + [200]


def test_the_flaky_consumer_says_when_to_come_again():
    assert ask(lambda asking: asking("flaky", "issues"))[1]["Retry-After"] == "2"


def test_the_rejecting_consumer_says_what_it_does_not_like():
    status, _, problem = ask(lambda asking: asking("rejecting", "pull_request", 9))
    assert status == 422
    assert problem["error"] == "validation_failed"
    assert problem["field"] == "pull_request.head.repo"


def test_the_rejecting_consumer_takes_other_events():
    assert ask(lambda asking: asking("rejecting", "star"))[0] == 200


def test_the_rejecting_consumer_can_be_fixed_and_broken_again():
    async def questions(asking):
        await asking.switch("fixed")
        fixed = (await asking("rejecting", "release"))[0]
        await asking.switch("broken")
        return fixed, (await asking("rejecting", "release"))[0]

    assert ask(questions) == (200, 422)


def test_the_ports_follow_the_dashboard_unless_they_are_chosen():
    assert base_port({}) == 8010
    assert base_port({"POISONADMIN_PORT": "9100"}) == 9110
    assert base_port({"POISONADMIN_PORT": "9100", "POISONADMIN_SAMPLE_PORT": "7000"}) == 7000


def _start(base: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sample.consumers"],
        cwd=PROJECT,
        env=os.environ | {"POISONADMIN_SAMPLE_PORT": str(base)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_process_says_where_it_listens_and_ends_when_told():
    base = three_free_ports()
    with _start(base) as running:
        assert f"127.0.0.1:{base} (healthy)" in running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=10) == 0


def test_a_taken_port_is_named_in_one_line():
    base = three_free_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 1))
        taken.listen()
        with _start(base) as running:
            _, said = running.communicate(timeout=20)
    assert running.returncode == 1
    assert f"{base} to {base + 2}" in said
    assert "POISONADMIN_SAMPLE_PORT" in said
    assert said.count("\n") == 1
