"""F5: each worker killed again and again while a great operation is carried out, and a second one overlaps it."""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from tests.faults import invariants
from tests.faults.kills import kill
from tests.faults.run import Result
from tests.faults.stages import staged
from tests.whole_system.consumer import Arrival, consuming
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import PROJECT, Installation

FAMILY, NAME = "F5", "great operation"
# Of a backlog's messages about six in ten wait for a decision.
BACKLOG = 330_000
KILLS = 10
OVERLAPPING = 20_000
VICTIMS = ("io", "spark-redelivery", "spark-batch", "beat", "web")
COMPLETED_SECONDS = 900
_DECIDED_TWICE = """
SELECT message_id FROM history WHERE event = 'approved' GROUP BY message_id HAVING count(*) > 1
"""


def run(seed: int) -> Result:
    """Approve 200,000 messages at once, kill a worker ten times, and see every member accounted for exactly once."""
    dice = random.Random(f"{FAMILY} {NAME} {seed}")
    with staged("plain") as installation, consuming() as consumer:
        destination = HttpDestination.create(installation, "operation", consumer)
        _load(installation)
        everything = {"match": "#", "settings": {}, "destination": destination.name}
        installation.post("policies/", everything)
        first = _begin(installation, {"filter": {"state": "NDLV"}})
        overlapping = installation.post("selections/", {"filter": {}, "limit": OVERLAPPING})
        second = _begin(installation, overlapping["id"])
        kills = _kill_some(installation, dice)
        wrong, seconds = _until_over(installation, [first, second])
        arrivals = list(consumer.arrivals)
        wrong += _wrong(installation, [first, second], arrivals)
        count = _operation(installation, first)["count"]
        taken_twice = len(invariants.duplicates(arrivals))
    moment = f"kill -9 of {', '.join(kills)} during an operation on {count:,}"
    return Result(FAMILY, NAME, seed, moment, count, taken_twice, 0, 0, 0, seconds, tuple(wrong))


def _load(installation: Installation) -> None:
    command = [sys.executable, "manage.py", "load_backlog", "--messages", str(BACKLOG), "--groups", "40"]
    subprocess.run(
        command, cwd=PROJECT, env=os.environ | installation.environment, check=True, stdout=subprocess.DEVNULL
    )


def _begin(installation: Installation, selection: object) -> str:
    asked = {"selection": selection, "action": "approve", "reason": "a fault run"}
    return str(installation.post("operations/", asked)["id"])


def _operation(installation: Installation, operation: str) -> dict[str, object]:
    found: dict[str, object] = installation.get(f"operations/{operation}/")
    return found


def _kill_some(installation: Installation, dice: random.Random) -> list[str]:
    kills: list[str] = []
    while len(kills) < KILLS:
        time.sleep(dice.uniform(0.5, 5.0))
        name = dice.choice(VICTIMS)
        with contextlib.suppress(psutil.NoSuchProcess):  # killed before, and not started again yet
            kill(installation, installation.process_of(name))
            kills.append(name)
    return kills


def _until_over(installation: Installation, operations: list[str]) -> tuple[list[str], float]:
    """Wait until the operations are over; return what is wrong, and how long it took."""
    installation.until_ready()
    began = time.monotonic()
    while time.monotonic() - began < COMPLETED_SECONDS:
        states = {_operation(installation, one)["state"] for one in operations}
        if states == {"completed"}:
            return [], time.monotonic() - began
        time.sleep(1)
    found = [_operation(installation, one) for one in operations]
    return [f"not completed within {COMPLETED_SECONDS} s: {found}"], time.monotonic() - began


def _wrong(installation: Installation, operations: list[str], arrivals: list[Arrival]) -> list[str]:
    wrong = []
    for one in operations:
        found = _operation(installation, one)
        ledger = found["ledger"]
        assert isinstance(ledger, dict)
        if sum(ledger.values()) != found["count"]:
            wrong.append(f"the ledger of operation {one} does not add up: {found}")
    decided_twice = installation.rows(_DECIDED_TWICE)
    return [
        *wrong,
        *invariants.told("approved by both operations", decided_twice),
        *invariants.untraceable(installation.rows, arrivals),
        *invariants.all_broken(installation.rows),
    ]


RUNS: dict[str, Callable[[int], Result]] = {f"{FAMILY} {NAME}": run}
