"""GUARD: what the guard costs a message, and how soon every consumer knows what one of them has reported."""

import contextlib
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from django.contrib.auth.models import User
from django.db import connection

from benchmarks.results import Line, at_most, quantile, say
from benchmarks.world import World
from poisonadmin.core.domain.access import Role
from poisonadmin.embedded.ports import free_port
from poisonadmin.store.models.access import Access
from poisonadmin.system.commands.tokens import create
from poisonguard.guard import Guard

NAME = "GUARD"
MESSAGES = 200_000
REPORTS = 200
LISTED = 20_000
FOLLOWERS = 100
STREAMS_EACH = 50  # of one token
BODY = b"x" * 1024
START_SECONDS = 60


def run(world: World) -> list[Line]:
    """Measure."""
    count = world.count(MESSAGES, least=2_000)
    token, *more = (_token() for _ in range(1 + FOLLOWERS // STREAMS_EACH))
    with running_web(world.directory) as (url, web):
        overheads = [
            statistics.median(overhead_us(url, token, world.directory, count, send_payload=kept) for _ in range(3))
            for kept in (False, True)
        ]
        alone = echo_seconds(url, [token], world.directory, world.count(REPORTS, least=20), followers=1)
        listed = world.count(LISTED)
        loading = loading_seconds(url, token, world.directory, listed)
        before = web.memory_info().rss
        many = echo_seconds(url, [token, *more], world.directory, world.count(REPORTS, least=20), followers=FOLLOWERS)
        grown = (web.memory_info().rss - before) / 2**20
    aim = "within a second (AMPS)"
    return [
        Line(NAME, "handling under the guard, with its journal", f"{overheads[0]:.1f} us a message"),
        Line(NAME, "the same with 1 KB of payload kept in the journal", f"{overheads[1]:.1f} us a message"),
        Line(NAME, f"start with {listed:,} bookmarks listed, 1 KB each", f"{loading:.2f} s"),
        at_most(NAME, "failure to skip in another guard, p95", quantile(alone, 0.95), aim=1.0, unit="s", note=aim),
        at_most(
            NAME,
            f"the same until the last of {FOLLOWERS} knows, p95",
            quantile(many, 0.95),
            aim=1.0,
            unit="s",
            note=f"the web process grew by {grown:.0f} MiB",
        ),
    ]


def overhead_us(url: str, token: str, directory: Path, count: int, *, send_payload: bool) -> float:
    """Return how much longer a message takes under the guard than by a bare call, in microseconds."""

    def handler(payload: bytes) -> bytes:
        return payload

    bookmarks = [str(number) for number in range(count)]
    with Guard(url, token, "bench", journal_dir=directory / "journal", send_payload=send_payload) as guard:
        began = time.perf_counter()
        for bookmark in bookmarks:
            guard.handle(bookmark, BODY, handler)
        guarded = time.perf_counter() - began
    began = time.perf_counter()
    for _ in bookmarks:
        handler(BODY)
    bare = time.perf_counter() - began
    more_us = (guarded - bare) / count * 1e6
    say(f"    {count:,} messages, payload {'kept' if send_payload else 'not kept'}: {more_us:.2f} us")
    return more_us


def loading_seconds(url: str, token: str, directory: Path, count: int) -> float:
    """Return how long a guard's start takes when so many bookmarks are listed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO poison_entry (source, bookmark, why, reported_by, is_listed)"
            " SELECT 'bench-listed', n::text, repeat('x', 900), 'bench', TRUE FROM generate_series(1, %s) AS n",
            [count],
        )
    began = time.perf_counter()
    with Guard(url, token, "bench-listed", journal_dir=directory / "journal"):
        return time.perf_counter() - began


def echo_seconds(url: str, tokens: Sequence[str], directory: Path, count: int, *, followers: int) -> list[float]:
    """Return, a report each, how long it took from the failure until the last of the followers knew."""
    source = f"bench-{followers}-{time.time_ns()}"
    guards = [
        Guard(url, tokens[number // STREAMS_EACH], source, journal_dir=directory / "journal").start(60)
        for number in range(1 + followers)
    ]
    failing, others = guards[0], guards[1:]
    waits = []
    for number in range(count):
        began = time.perf_counter()
        with contextlib.suppress(ZeroDivisionError):
            failing.handle(number, 0, lambda payload: 1 / payload)
        while not all(guard.is_listed(number) for guard in others):
            time.sleep(0.0005)
        waits.append(time.perf_counter() - began)
    for guard in guards:
        guard.close(0.1)
    middle, most = (quantile(waits, share) * 1000 for share in (0.5, 0.95))
    say(f"    {followers} following: p50 {middle:.0f} ms, p95 {most:.0f} ms")
    return waits


@contextlib.contextmanager
def running_web(directory: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the address and the process of a web server on the world's database."""
    port = free_port()
    command = [sys.executable, "-m", "poisonadmin.serve", "--port", str(port)]
    static = Path(os.environ["POISONADMIN_HOME"]) / "staticfiles"
    static.mkdir(exist_ok=True)
    with (directory / "web.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/healthz", timeout=5):
                break
            assert time.monotonic() < deadline, "the web process does not answer"
            time.sleep(0.1)
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _token() -> str:
    user, _ = User.objects.get_or_create(username="bench")
    Access.objects.get_or_create(user=user, defaults={"role": Role.OPERATOR})
    return create(user, "guard", scopes=["ingest"], by="bench").text
