"""The scheduler of the beat: fixed ticks that go on whatever somebody does to the wall clock."""

import time
from typing import Any

from celery.beat import Scheduler
from django.conf import settings

from workers.heartbeat import note_life

# More than any drift between two looks, less than a tick.
_STEP_SECONDS = 0.5
# Celery wakes up 10 ms before a tick is due, and says by a negative time that it would look again and again until then.
_PAUSE_SECONDS = 0.01


def offset() -> float:
    """Return how far the wall clock is ahead of the monotonic one, in seconds; it changes when the clock is set."""
    return time.time() - time.monotonic()


class SteadyScheduler(Scheduler):  # type: ignore[misc]
    """Celery's scheduler without its memory, and without its sleep when the clock is set back.

    Celery compares wall-clock times: set back by an hour, it would send no tick for an hour. A step is seen against the
    monotonic clock, and every period then begins anew. Nothing is remembered over a restart: a tick means *look now*.
    """

    max_interval = 1

    def __init__(self, *args: Any, **options: Any) -> None:
        self._offset = offset()
        super().__init__(*args, **options)

    def tick(self, *args: Any, **options: Any) -> float:
        """Send the first tick that is due; return the seconds until the next look, at most one."""
        note_life(settings.ALIVE_FILE)
        now = offset()
        if abs(now - self._offset) > _STEP_SECONDS:
            self._offset = now
            for entry in self.schedule.values():
                entry.last_run_at = entry.default_now()
            self.populate_heap()
        seconds: float = super().tick(*args, **options)
        return _PAUSE_SECONDS if seconds < 0 else min(seconds, self.max_interval)
