"""F1, F7, F18 and F25 with handlers under load: sandboxes, Spark workers, JVMs, Python workers and their daemons die.

On `local`, on `local-cluster` and over Spark Connect.
"""

import contextlib
import os
import signal
import time
from dataclasses import replace

import psutil

from tests.faults.connect_server import CLASS
from tests.faults.f25_everything import everything_killed
from tests.faults.kills import DAEMON, SANDBOX, command, is_ours, kill, parent_is_java, running
from tests.faults.run import Fault, Scene
from tests.whole_system.installation import Installation, until

SPARK_SECONDS = 90
PROMPT_SECONDS = 15
MAX_SANDBOXES = 4
# A lease is 60 s; then somebody has to notice, and what was taken has to be delivered elsewhere.
PAST_THE_LEASE_SECONDS = 66
DELIVERING = "SELECT DISTINCT pid FROM node WHERE ended_at IS NULL AND begun = 0 AND journals IS NOT NULL"


def sandboxes(scene: Scene) -> str:
    """Kill sandboxes, one after the other, while their parents live."""
    count = scene.dice.randint(1, MAX_SANDBOXES)
    for _ in range(count):
        until(lambda: _sandboxes(scene.installation), 30, lambda: "no sandbox")
        _kill(scene, scene.dice.choice(_sandboxes(scene.installation) or [None]))
        time.sleep(scene.dice.uniform(0.0, 0.4))
    return f"kill -9 of {count} sandboxes"


def spark_worker(scene: Scene) -> str:
    """Kill the Celery worker that drives Spark."""
    kill(scene.installation, scene.installation.process_of("spark-redelivery"))
    return "kill -9 of the Spark worker"


def jvm(scene: Scene) -> str:
    """Kill a Java process: of the driver, of an executor, or of the Connect server."""
    machines = [one for one in _spark_processes(scene.installation) if one.name() == "java"]
    chosen = scene.dice.choice(machines)
    kill(scene.installation, chosen)
    return f"kill -9 of a JVM, one of {len(machines)}"


def python_worker(scene: Scene) -> str:
    """Kill a Python process that delivers."""
    _kill(scene, scene.dice.choice(_delivering(scene)))
    return "kill -9 of a Python worker that delivers"


def daemon(scene: Scene) -> str:
    """Kill the process that forks the Python workers, and none of them."""
    until(lambda: _daemons(scene.installation), 30, lambda: "no daemon")
    _kill(scene, scene.dice.choice(_daemons(scene.installation)))
    return "kill -9 of the daemon"


def group(scene: Scene) -> str:
    """Kill all at once what belongs to the Spark worker, and the Connect server where there is one."""
    leaders = [scene.installation.process_of("spark-redelivery"), *_connect_servers(scene.installation)]
    for leader in leaders:
        assert is_ours(scene.installation, leader)
        os.killpg(leader.pid, signal.SIGKILL)
    return "kill -9 of the whole process group"


def stopped_past_the_lease(scene: Scene) -> str:
    """Stop the processes that deliver for longer than their lease, and let them go on as if nothing had been."""
    victims = _delivering(scene)
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.suspend()
    time.sleep(PAST_THE_LEASE_SECONDS)
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.resume()
    return f"SIGSTOP of {len(victims)} Python workers for {PAST_THE_LEASE_SECONDS} s, then SIGCONT"


def _delivering(scene: Scene) -> list[psutil.Process]:
    found: list[psutil.Process] = []

    def there_are() -> bool:
        found.clear()
        for (pid,) in scene.installation.rows(DELIVERING):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return bool(found)

    until(there_are, 60, lambda: "nobody delivers")
    return found


def _sandboxes(installation: Installation) -> list[psutil.Process]:
    return running(SANDBOX, _spark_processes(installation))


def _daemons(installation: Installation) -> list[psutil.Process]:
    """Return the Python processes that a Java process started, of the worker that redelivers."""
    return [one for one in running(DAEMON, _spark_processes(installation)) if parent_is_java(one)]


def _spark_processes(installation: Installation) -> list[psutil.Process]:
    roots = _connect_servers(installation) or [installation.process_of("spark-redelivery")]
    return [process for root in roots for process in [root, *root.children(recursive=True)]]


def _connect_servers(installation: Installation) -> list[psutil.Process]:
    return [
        one
        for one in psutil.process_iter()
        if _name(one) == "java" and CLASS in command(one) and _is_ours(installation, one)
    ]


def _is_ours(installation: Installation, process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return is_ours(installation, process)
    return False


def _kill(scene: Scene, process: psutil.Process | None) -> None:
    if process is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _name(process: psutil.Process | None) -> str:
    with contextlib.suppress(psutil.Error):
        return process.name() if process is not None else ""
    return ""


_FAULTS = (
    Fault("F1", "sandboxes", sandboxes, PROMPT_SECONDS, kills_sandboxes=MAX_SANDBOXES),
    Fault("F7", "Spark worker", spark_worker, SPARK_SECONDS),
    Fault("F7", "JVM", jvm, SPARK_SECONDS),
    Fault("F7", "Python worker", python_worker, PROMPT_SECONDS),
    Fault("F7", "daemon", daemon, PROMPT_SECONDS),
    Fault("F7", "group", group, SPARK_SECONDS, kills_sandboxes=None),
    Fault("F18", "past the lease", stopped_past_the_lease, PROMPT_SECONDS),
    Fault("F25", "everything", everything_killed, SPARK_SECONDS, web_may_be_away=True, kills_sandboxes=None),
)
STAGES = {"handlers": "plain", "cluster": "cluster", "connect": "connect"}

FAULTS = tuple(
    replace(fault, name=f"{place} {fault.name}", stage=stage, to_handlers=True)
    for place, stage in STAGES.items()
    for fault in _FAULTS
)
