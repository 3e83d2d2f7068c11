"""Shifts the wall clock of every Python process that finds this on its path, by the seconds that FAULT_CLOCK_FILE says.

Processes import it by themselves when they start. The monotonic clock stays right, as it does when a real one is set.
"""

import contextlib
import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import time_machine

_LOOK_SECONDS = 0.1
_file = Path(os.environ.get("FAULT_CLOCK_FILE", os.devnull))


def _follow() -> None:
    shift, traveller = 0.0, None
    while True:
        wanted = shift
        with contextlib.suppress(OSError, ValueError):
            wanted = float(_file.read_text())
        if wanted != shift:
            if traveller is not None:
                traveller.stop()
                traveller = None
            if wanted:
                there = datetime.fromtimestamp(time.time(), UTC) + timedelta(seconds=wanted)
                traveller = time_machine.travel(there, tick=True)
                traveller.start()
            shift = wanted
        time.sleep(_LOOK_SECONDS)


def _start() -> None:
    threading.Thread(target=_follow, name="clock", daemon=True).start()


def _start_again_in_a_pool() -> None:
    # Threads do not survive a fork. What is forked only to become another program must not start any.
    if {"celery", "pyspark"} & set(sys.modules):
        _start()


if "FAULT_CLOCK_FILE" in os.environ:
    _start()
    os.register_at_fork(after_in_child=_start_again_in_a_pool)
