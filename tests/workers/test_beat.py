"""The beat, and what happens to it when the clock is set."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from celery import Celery
from pytest_django import Settings

from workers import beat
from workers.beat import SteadyScheduler
from workers.celery_app import app

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


class Recording(SteadyScheduler):
    """A scheduler that writes down what it would send."""

    def __init__(self, *args: object, **options: object) -> None:
        self.sent: list[str] = []
        super().__init__(*args, **options)

    def apply_entry(self, entry: object, **_: object) -> None:
        """Write the tick down."""
        self.sent.append(entry.name)  # type: ignore[attr-defined]

    def due(self) -> list[str]:
        """Send all that is due and return it."""
        self.sent.clear()
        while self.tick() == 0:
            pass
        return sorted(self.sent)


def scheduler() -> Recording:
    """Return a scheduler of one tick a second and one every two."""
    ticking = Celery("test", broker="memory://", set_as_current=False)
    ticking.conf.beat_schedule = {"one": {"task": "one", "schedule": 1.0}, "two": {"task": "two", "schedule": 2.0}}
    return Recording(app=ticking)


@pytest.mark.parametrize("step", [-86_400, -3600, -30, 30, 3600])
def test_ticks_go_on_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(beat, "offset", lambda: 0.0)
    with time_machine.travel(NOON, tick=False) as clock:
        ticking = scheduler()
        ticking.due()
        clock.shift(2.1)
        assert ticking.due() == ["one", "two"]
        monkeypatch.setattr(beat, "offset", lambda: float(step))
        clock.shift(step)
        ticking.due()
        clock.shift(2.1)
        assert ticking.due() == ["one", "two"]


def test_the_beat_looks_at_the_clock_at_least_once_a_second() -> None:
    assert scheduler().tick() <= 1


def test_the_beat_touches_a_file_at_each_look(settings: Settings, tmp_path: Path) -> None:
    settings.ALIVE_FILE = str(tmp_path / "alive")
    scheduler().tick()
    assert (tmp_path / "alive").exists()


def test_the_application_uses_it_and_lets_no_tick_expire_before_a_worker_is_back() -> None:
    assert app.conf.beat_scheduler == "workers.beat:SteadyScheduler"
    assert all(entry["options"]["expires"] >= 30 for entry in app.conf.beat_schedule.values())


def test_the_beat_sleeps_until_a_tick_is_due() -> None:
    with time_machine.travel(NOON, tick=False) as clock:
        ticking = scheduler()
        ticking.due()
        clock.shift(0.995)  # within the 10 ms by which Celery wakes up too early
        assert ticking.tick() > 0
