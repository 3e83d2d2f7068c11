"""A worker is alive while it takes ticks, and a queue that stands still for a while ends none."""

import contextlib
import errno
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import kombu
import pytest
import redis
from kombu.exceptions import OperationalError

from poisonadmin.embedded.ports import free_port
from poisonadmin.embedded.services import Valkey, prepare_valkey
from poisonadmin.system.queries.overview import worker_silences
from tests.services import _start, _stop
from workers import heartbeat
from workers.celery_app import KEY_PREFIX, TickQoS, app
from workers.heartbeat import Ticks, WorkerHeartbeat, end_when_stalled, least_room

QUEUE = "ticks"


class Server:
    """A Valkey of the test's own, which can be stopped like one whose machine is."""

    def __init__(self, valkey: Valkey, pid: int) -> None:
        self.url = valkey.url
        self._pid = pid

    def stop(self) -> None:
        """Have it answer nothing."""
        os.kill(self._pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it answer again."""
        os.kill(self._pid, signal.SIGCONT)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    valkey, process = _start(tmp_path, lambda: prepare_valkey(tmp_path))
    yield Server(valkey, process.pid)
    process.send_signal(signal.SIGCONT)
    _stop(process, [(signal.SIGTERM, 3)])


def drain(connection: kombu.Connection) -> None:
    """Wait for a message, and for none too long."""
    with contextlib.suppress(TimeoutError):
        connection.drain_events(timeout=2)


def test_a_worker_takes_the_next_tick_although_the_last_one_could_not_be_acknowledged(server: Server) -> None:
    taken: list[kombu.Message] = []
    options = {"socket_timeout": 0.5, "global_keyprefix": KEY_PREFIX}
    with kombu.Connection(server.url, transport_options=options) as queue:
        channel = queue.channel()
        assert isinstance(channel.qos, TickQoS)
        channel.basic_qos(0, 1, False)
        with channel.Consumer(kombu.Queue(QUEUE), on_message=taken.append) as consumer:
            producer = channel.Producer()
            for n in range(2):
                producer.publish({"n": n}, routing_key=QUEUE, retry=False)
            drain(queue)
            assert len(taken) == 1
            server.stop()
            taken[0].ack_log_error(logging.getLogger("tests"), queue.connection_errors)
            server.go_on()
            assert channel.qos.can_consume()
            drain(queue)
            assert len(taken) == 2
            consumer.cancel()


class Ended(Exception):
    """Raised where the process would end."""


class Watched(Ticks):
    """Ticks that have something done before each check of them, and end the watch after thirty."""

    checks = 0
    before: Callable[[int], object] = staticmethod(lambda _: None)
    most = 30

    def silent_seconds(self) -> float | None:
        """Count, and do it."""
        self.checks += 1
        if self.checks > self.most:
            raise StopIteration
        self.before(self.checks)
        return super().silent_seconds()


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Check often, and end the test instead of the process."""
    watched = Watched()
    monkeypatch.setattr(heartbeat, "ticks", watched)
    monkeypatch.setattr(heartbeat, "CHECK_SECONDS", 0.05)

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    return watched


def test_a_worker_ends_that_takes_no_tick_while_ticks_wait(server: Server, ticks: Watched) -> None:
    redis.Redis.from_url(server.url).lpush(QUEUE, "tick")
    with pytest.raises(Ended, match=str(heartbeat.EXIT_STALLED)):
        end_when_stalled(server.url, QUEUE, "")
    assert ticks.checks == heartbeat.STALLED_CHECKS


@pytest.mark.parametrize("why", ["empty queue", "ticks are taken", "one is under way", "Redis does not answer"])
def test_a_worker_goes_on_that_takes_ticks_or_can_take_none(server: Server, ticks: Watched, why: str) -> None:
    if why != "empty queue":
        redis.Redis.from_url(server.url).lpush(QUEUE, "tick")
    if why == "one is under way":
        ticks.begin("one")
    if why == "Redis does not answer":
        server.stop()

    def take(number: int) -> None:
        if why == "ticks are taken" and number % 5 == 0:
            ticks.begin("one")
            ticks.end("one")

    ticks.before = take
    with pytest.raises(StopIteration):
        end_when_stalled(server.url, QUEUE, "")


def test_a_worker_touches_a_file_at_each_look(server: Server, ticks: Watched, tmp_path: Path) -> None:
    file = tmp_path / "alive"
    file.touch()
    os.utime(file, (0, 0))
    with pytest.raises(StopIteration):
        end_when_stalled(server.url, QUEUE, str(file))
    assert time.time() - file.stat().st_mtime < 60


def test_a_file_that_cannot_be_touched_ends_no_worker(server: Server, ticks: Watched, tmp_path: Path) -> None:
    with pytest.raises(StopIteration):
        end_when_stalled(server.url, QUEUE, str(tmp_path / "none" / "alive"))


def test_a_worker_that_has_lost_redis_tries_again_every_two_seconds_for_ever() -> None:
    waits: list[float] = []
    with app.connection_for_read(f"redis://127.0.0.1:{free_port()}/0") as nobody, pytest.raises(OperationalError):
        nobody.ensure_connection(lambda _, wait: waits.append(wait), max_retries=2)
    assert waits == [2.0, 2.0]
    assert app.conf.broker_connection_max_retries is None


def test_the_fullest_disk_is_found_and_a_place_that_cannot_be_asked_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(place: Path) -> SimpleNamespace:
        if place.name == "broken":
            raise OSError(errno.ESTALE, "stale")
        return SimpleNamespace(free=5 if place.name == "small" else 900, total=100 if place.name == "small" else 1000)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    for name in ("small", "large", "broken"):
        (tmp_path / name).mkdir()
    places = [tmp_path / "large", tmp_path / "broken", tmp_path / "small" / "not" / "there"]
    assert least_room(places) == (str(places[2]), 5, 100)
    assert least_room(places[1:2]) == (None, None, None)


@pytest.mark.django_db(transaction=True)
def test_a_heartbeat_says_when_a_tick_was_taken_and_two_workers_of_a_kind_have_one_each(
    test_database_url: str, ticks: Watched
) -> None:
    ticks.most = 10_000
    beats = [WorkerHeartbeat(test_database_url, f"io@{host}") for host in ("here", "there")]
    try:
        time.sleep(1.5)
        assert worker_silences() == []  # a process that lives takes no ticks for that
        ticks.begin("one")
        wait_until(lambda: [name for name, silent in worker_silences() if silent < 1] == ["io@here", "io@there"])
        ticks.end("one")
        wait_until(lambda: worker_silences() and min(silent for _, silent in worker_silences()) > 2)
    finally:
        for one in beats:
            one.stop()


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
