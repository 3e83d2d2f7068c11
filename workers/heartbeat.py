"""The signs of life of a worker: it is alive while it takes ticks, whatever else its process does."""

import logging
import os
import platform
import secrets
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
import redis
from django.conf import settings

from poisonadmin.core.domain.locks import Lock, lock_key
from poisonadmin.delivery.domain.lease import HEARTBEAT_SECONDS

# So often is a queue asked whether ticks wait, and so often in a row they wait in vain before the process ends.
CHECK_SECONDS = 1.0
STALLED_CHECKS = 10
EXIT_STALLED = 72
DISK_SECONDS = 5.0

log = logging.getLogger(__name__)


class Ticks:
    """Notes the ticks that this process takes."""

    def __init__(self) -> None:
        self._under_way: set[str] = set()
        self._ended_at: float | None = None

    def begin(self, tick: str) -> None:
        """Note that a tick is taken."""
        self._under_way.add(tick)

    def end(self, tick: str) -> None:
        """Note that a tick has ended."""
        self._ended_at = time.monotonic()
        self._under_way.discard(tick)

    def silent_seconds(self) -> float | None:
        """Return how long ago the latest tick ended; 0 while one is under way, None before the first."""
        if self._under_way:
            return 0.0
        return None if self._ended_at is None else time.monotonic() - self._ended_at


ticks = Ticks()


def note_life(file: str) -> None:
    """Touch the file that a container's health check looks at, where one is named."""
    if file:
        # A file that cannot be touched is what the health check is to find.
        with suppress(OSError):
            Path(file).touch()


def end_when_stalled(redis_url: str, queue: str, alive_file: str) -> None:
    """End this process when ticks wait in its queue and it takes none; whoever runs it starts it again.

    `queue`: its name in Redis. A queue that is empty, or does not answer, is not this process's fault. `alive_file`: a
    file that is touched at each look, where one is named.
    """
    stalled = 0
    while stalled < STALLED_CHECKS:
        note_life(alive_file)
        time.sleep(CHECK_SECONDS)
        silent = ticks.silent_seconds()
        is_taking = silent is not None and silent < CHECK_SECONDS
        # Checks are counted, and not seconds: a process that was stopped for a while gets its time, too.
        stalled = stalled + 1 if not is_taking and _is_any_waiting(redis_url, queue) else 0
    log.critical("ticks wait and this worker takes none; it ends and is started again")
    os._exit(EXIT_STALLED)


def _is_any_waiting(redis_url: str, queue: str) -> bool:
    options = {"socket_timeout": CHECK_SECONDS, "socket_connect_timeout": CHECK_SECONDS}
    try:
        with redis.Redis.from_url(redis_url, **options) as client:
            return bool(client.llen(queue))
    except (redis.RedisError, OSError, ValueError):
        return False


def _written_places() -> list[Path]:
    spills = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    archive = [] if "://" in settings.ARCHIVE else [settings.ARCHIVE]
    return [settings.HOME, *map(Path, filter(None, [*archive, *spills]))]


def least_room(places: Sequence[Path]) -> tuple[str | None, int | None, int | None]:
    """Return the place on the disk with the least room, as a share, with its free bytes and its size.

    Of a place that is not there yet it is the directory that will hold it. A place that cannot be asked is left out.
    """
    found = []
    for place in places:
        with suppress(OSError):
            there = next(one for one in (place, *place.parents) if one.exists())
            usage = shutil.disk_usage(there)
            found.append((usage.free / max(usage.total, 1), str(place), usage.free, usage.total))
    return min(found)[1:] if found else (None, None, None)


_WORKER = """
INSERT INTO worker (name, host, pid, disk_path, disk_free_bytes, disk_bytes, heartbeat_at)
VALUES (%s, %s, %s, %s, %s, %s, now() - %s * interval '1 s')
ON CONFLICT (name) DO UPDATE SET host = excluded.host, pid = excluded.pid, heartbeat_at = excluded.heartbeat_at,
    disk_path = excluded.disk_path, disk_free_bytes = excluded.disk_free_bytes, disk_bytes = excluded.disk_bytes,
    started_at = CASE WHEN worker.pid = excluded.pid THEN worker.started_at ELSE now() END
"""


class WorkerHeartbeat:
    """Holds the advisory lock of each run given to `hold` and moves its heartbeat until `release`.

    Moves the worker's own heartbeat as well, to the time of the latest tick that it took. `instance`: the number of
    this start of the worker, whose advisory lock is held as long as it lives.
    """

    def __init__(self, dsn: str, worker: str) -> None:
        self._dsn = dsn
        self._worker = worker
        self.instance = secrets.randbits(31)
        self._runs: set[int] = set()
        self._locked: set[int] = set()
        self._change = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._disk: tuple[str | None, int | None, int | None] = (None, None, None)
        self._thread.start()
        threading.Thread(target=self._watch_disks, name="disks", daemon=True).start()

    def hold(self, run_id: int) -> None:
        """Keep the run alive from now on."""
        self._runs.add(run_id)
        self._change.set()

    def release(self, run_id: int) -> None:
        """Let go of a run that has ended."""
        self._runs.discard(run_id)
        self._change.set()

    def stop(self) -> None:
        """Let go of everything."""
        self._is_over = True
        self._change.set()
        self._thread.join(timeout=5)

    def _watch_disks(self) -> None:
        """Measure in a thread of its own: a network's disk that is away would stop the heartbeat."""
        while not self._is_over:
            self._disk = least_room(_written_places())
            time.sleep(DISK_SECONDS)

    def _run(self) -> None:
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        while not self._is_over:
            try:
                if connection is None or connection.closed or connection.broken:
                    connection = psycopg.connect(
                        self._dsn, autocommit=True, connect_timeout=5, application_name=f"poisonadmin {self._worker}"
                    )
                    self._locked.clear()
                    connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.WORKER, self.instance])
                self._beat(connection)
            except psycopg.Error as error:  # of any kind: a thread that ends here would let every run be taken for dead
                log.warning("the database does not answer as it should: %s", str(error).splitlines()[0])
                connection = None
            self._change.wait(HEARTBEAT_SECONDS)
            self._change.clear()
        if connection is not None:
            connection.close()

    def _beat(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        runs = set(self._runs)
        for run_id in runs - self._locked:
            connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [Lock.RUN, lock_key(run_id)])
        for run_id in self._locked - runs:
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", [Lock.RUN, lock_key(run_id)])
        self._locked = runs
        if runs:
            connection.execute("UPDATE run SET heartbeat_at = now() WHERE id = ANY(%s)", [list(runs)])
            # Those that were cancelled between two turns are nobody's any more.
            ended = connection.execute("SELECT id FROM run WHERE id = ANY(%s) AND ended_at IS NOT NULL", [list(runs)])
            self._runs.difference_update(row[0] for row in ended.fetchall())
        if (silent := ticks.silent_seconds()) is not None:
            connection.execute(_WORKER, [self._worker, platform.node(), os.getpid(), *self._disk, silent])
