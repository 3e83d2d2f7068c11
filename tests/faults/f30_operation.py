"""F30: an operation with a rate, a canary and a sign-off is paused, resumed and cancelled while everything dies."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import psutil

from tests.faults import invariants
from tests.faults.kills import kill
from tests.faults.run import Result
from tests.faults.stages import staged
from tests.whole_system import cancelled_operation
from tests.whole_system.cancelled_operation import KINDS, Json, Scene, set_up
from tests.whole_system.consumer import Arrival, consuming
from tests.whole_system.http_destination import HttpDestination
from tests.whole_system.installation import PROJECT, Installation, NoAnswer, until

FAMILY, NAME = "F30", "operation under everything"
MESSAGES = 400
STEPS = 8
VICTIMS = ("io", "spark-redelivery", "spark-batch", "beat", "web", "valkey", "postgres")
ANSWERED_SECONDS = 240


def run(seed: int) -> Result:
    """Cancel the operation at last, and see that its ledger sums and that nothing of it begins any more."""
    dice = random.Random(f"{FAMILY} {NAME} {seed}")
    kind, rate = dice.choice(list(KINDS)), dice.choice([4, 20, 60])
    with staged("plain") as installation, consuming(cancelled_operation.behaviour(dice)) as consumer:
        to = HttpDestination.create(installation, "operation", consumer, **KINDS[kind].settings)
        reviewer = _reviewer(installation)
        installation.post("sign-off-rules/", {"match": "#", "above": MESSAGES // 2})
        scene = set_up(to, KINDS[kind], MESSAGES)
        operation = scene.begin(rate_per_second=rate, canary=dice.random() < 0.5)
        _sign_off(installation, operation, reviewer)
        deeds = [_step(installation, operation, dice) for _ in range(STEPS)]
        began = time.monotonic()
        _asked(installation, f"operations/{operation}/cancel/")
        found = cancelled_operation.until_over(installation, operation)
        seconds = time.monotonic() - began
        installation.until_ready()
        time.sleep(3)
        arrivals = list(consumer.arrivals)
        wrong = _wrong(scene, found, rate, arrivals)
    moment = f"{kind} at {rate}/s, {', '.join(deeds)}, cancelled: {found['ledger']}"
    taken_twice = len(invariants.duplicates(arrivals))
    return Result(FAMILY, NAME, seed, moment, MESSAGES, taken_twice, 0, 0, 0, seconds, tuple(wrong))


def _reviewer(installation: Installation) -> str:
    """Return the token of another administrator."""

    def manage(*words: str, typed: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=PROJECT,
            env=os.environ | installation.environment,
            input=typed,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.split()[-1] if done.stdout.strip() else ""

    manage("user", "create", "rita", "--role", "admin", typed="correct-horse-battery\n")
    return manage("token", "create", "rita", "reviews")


def _sign_off(installation: Installation, operation: int, reviewer: str) -> None:
    found = installation.get(f"operations/{operation}/")
    assert found["state"] == "waiting_for_sign_off", found
    body = {"hash": found["hash"], "reason": "a fault run"}
    headers = {"Authorization": f"Bearer {reviewer}"}
    installation.ask("POST", f"operations/{operation}/sign-offs/", body, headers=headers).expect(200)


def _step(installation: Installation, operation: int, dice: random.Random) -> str:
    """Pause or resume the operation, or kill one of the processes; return what was done."""
    time.sleep(dice.uniform(0.2, 4.0))
    if dice.random() < 0.3:
        what = dice.choice(["pause", "resume"])
        _asked(installation, f"operations/{operation}/{what}/")
        return what
    name = dice.choice(VICTIMS)
    with contextlib.suppress(psutil.NoSuchProcess):  # killed before, and not started again yet
        kill(installation, installation.process_of(name), signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
    return f"kill of {name}"


def _asked(installation: Installation, path: str) -> None:
    """Ask until there is an answer; that the operation is in another state is one."""

    def is_answered() -> bool:
        with contextlib.suppress(NoAnswer):
            return installation.ask("POST", path, {}).status in (200, 409)
        return False

    until(is_answered, ANSWERED_SECONDS, lambda: installation.output[-3000:])


def _wrong(scene: Scene, found: Json, rate: int, arrivals: list[Arrival]) -> list[str]:
    # Of what was lost with its node nobody knows whether it had begun.
    wrong = cancelled_operation.wrong(scene, found, outcomes_are_known=False)
    too_many = [(second, n) for second, n in _in_a_second(arrivals).items() if n > rate + 1]
    return [
        *wrong,
        *invariants.told(f"more than {rate} and one began in a second", too_many),
        *invariants.untraceable(scene.to.installation.rows, arrivals),
        *invariants.all_broken(scene.to.installation.rows),
    ]


def _in_a_second(arrivals: list[Arrival]) -> Counter[float]:
    """Return how many came in the second from each arrival on."""
    times = sorted(one.at for one in arrivals)
    return Counter({at: sum(at <= other < at + 1 for other in times) for at in times})


RUNS: dict[str, Callable[[int], Result]] = {f"{FAMILY} {NAME}": run}
