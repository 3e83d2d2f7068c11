"""F18: a process under SIGSTOP for longer than the time-outs of who waits for it, twice, with messages in between."""

import signal
import time
from collections.abc import Callable

import psutil

from tests.faults.kills import jvm_of, kill
from tests.faults.run import Fault, Scene

# Longer than the queue's time-out (workers/celery_app.py).
STOPPED_SECONDS = 15
# A worker takes ticks again so soon after Valkey has come back.
BACK_SECONDS = 5
PROMPT_SECONDS = 10
ASKED_BY_READYZ = ("postgres", "valkey")
READY_SECONDS = 2
SERVICES = ("postgres", "valkey", "web", "io", "beat", "spark-batch", "spark-redelivery", "JVM")


def stopped_twice(name: str) -> Callable[[Scene], str]:
    """Return a strike: the process, and what it has forked where it is PostgreSQL, is stopped and goes on, twice."""

    def strike(scene: Scene) -> str:
        for seconds_between in (scene.dice.uniform(4, 8), 0):
            victims = processes_of(scene, name)
            for victim in victims:
                kill(scene.installation, victim, signal.SIGSTOP)
            if name in ASKED_BY_READYZ:
                assert scene.installation.ask("GET", "/readyz", seconds=READY_SECONDS).status == 503
            time.sleep(STOPPED_SECONDS)
            for victim in victims:
                kill(scene.installation, victim, signal.SIGCONT)
            time.sleep(seconds_between)
        return f"SIGSTOP of {name} for {STOPPED_SECONDS} s, twice"

    return strike


def processes_of(scene: Scene, name: str) -> list[psutil.Process]:
    """Return the processes to stop."""
    if name == "JVM":
        return [jvm_of(scene.installation, "spark-redelivery")]
    found = scene.installation.process_of(name)
    return [found, *found.children(recursive=True)] if name == "postgres" else [found]


FAULTS = tuple(
    Fault(
        "F18",
        f"SIGSTOP of {name}",
        stopped_twice(name),
        BACK_SECONDS if name == "valkey" else PROMPT_SECONDS,
        web_may_be_away=name == "web",
    )
    for name in SERVICES
)
