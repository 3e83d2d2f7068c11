"""B11: kill -9 of a process that delivers, until its messages can be claimed again; the peer is Celery on Valkey."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import redis
from django.db import connection

from benchmarks import celery_peer, live, loads, orders
from benchmarks.results import Line, at_most, quantile, say
from benchmarks.world import World

NAME = "B11"
KILLS = 20
PEER_KILLS = 1
LIMIT = "1.5 s of silence before a node counts as lost, then a tick of 0.25 s"

# Of a node that is delivering: its process, and what it holds.
_NODE = """
SELECT node.pid, array_agg(message.id), array_agg(message.attempt_number)
FROM node JOIN message USING (claim_id, shard) WHERE ended_at IS NULL AND state = 'DLNG' AND journals IS NOT NULL
GROUP BY node.id HAVING count(*) > 2 ORDER BY node.id DESC LIMIT 1
"""
_LEFT = """
SELECT count(*), extract(epoch FROM max(history.at))::float8
FROM unnest(%s::bigint[], %s::int[]) AS held (id, attempt)
     LEFT JOIN history ON message_id = held.id AND attempt_number = held.attempt AND from_state = 'DLNG'
WHERE message_id IS NOT NULL
"""


def run(world: World) -> list[Line]:
    """Measure."""
    kills = world.count(KILLS, least=3)
    orders.handle_with("b11", "deadly:handle", timeout_ms=60_000)
    orders.fill("b11.x", [b"sleep 0.3"] * 20_000, begin=loads.database_now() + 15)
    times = []
    for number in range(1, kills + 1):
        times.append(_one_kill())
        say(f"    kill {number}: claimable again after {times[-1]:.2f} s")
    loads.give_up_waiting("b11.x")
    peer = [_one_kill_of_celery(world) for _ in range(PEER_KILLS)]
    said = ", ".join(f"{seconds:.1f}" for seconds in peer)
    note = (
        f"p50 {quantile(times, 0.5):.2f} s, {kills} kills; Celery with acks_late: {said} s with a visibility time-out"
        f" of {celery_peer.VISIBILITY_SECONDS} s, which is 3,600 s by default"
    )
    p99 = quantile(times, 0.99)
    return [at_most(NAME, "kill -9 until claimable again, p99", p99, aim=2.0, unit="s", note=note, limit=LIMIT)]


def _one_kill() -> float:
    """Kill a process that delivers; return the seconds until the last of what it held has left DLNG."""
    found: list[tuple[int, list[int], list[int]]] = []

    def delivers() -> bool:
        found[:] = _rows(_NODE)
        return bool(found)

    live.wait_until(delivers, seconds=120, what="a node that delivers")
    pid, ids, attempts = found[0]
    at = loads.database_now()
    os.kill(pid, signal.SIGKILL)
    left: list[tuple[int, float]] = []

    def are_back() -> bool:
        left[:] = _rows(_LEFT, [ids, attempts])
        return left[0][0] == len(ids)

    live.wait_until(are_back, seconds=120, what="the messages of the killed process")
    return left[0][1] - at


def _rows(query: str, values: list[list[int]] | None = None) -> list[tuple]:  # type: ignore[type-arg]
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


def _one_kill_of_celery(world: World) -> float:
    """Kill a worker in the middle of a task, another one being idle; return the seconds until that has the task."""
    with contextlib.closing(redis.Redis.from_url(world.services.redis_url)) as valkey:
        workers = [_worker(world), _worker(world)]
        try:
            live.wait_until(lambda: valkey.llen(celery_peer.READY) == 2, seconds=120, what="two workers of Celery's")
            celery_peer.app.conf.broker_url = world.services.redis_url
            celery_peer.sleep.delay(600)
            live.wait_until(lambda: valkey.llen(celery_peer.BEGUN) == 1, seconds=60, what="a task of Celery's")
            killed_at = time.monotonic()
            os.killpg(int(valkey.lindex(celery_peer.BEGUN, 0) or 0), signal.SIGKILL)
            live.wait_until(lambda: valkey.llen(celery_peer.BEGUN) == 2, seconds=300, what="the task of the killed one")
            return time.monotonic() - killed_at
        finally:
            for worker in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
            valkey.delete(celery_peer.READY, celery_peer.BEGUN, *valkey.keys(f"{celery_peer.PREFIX}*"))


def _worker(world: World) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "benchmarks.celery_peer", "worker", "--concurrency", "1", "-l", "ERROR"],
        env=os.environ | {"CELERY_PEER_URL": world.services.redis_url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
