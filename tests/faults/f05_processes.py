"""F5 and F7: processes killed one by one; two beats at once."""

import subprocess
import sys
import time

import psutil

from tests.faults.kills import jvm_of, kill, kill_named, python_workers_of, spark_of
from tests.faults.run import Fault, Scene
from tests.whole_system.installation import PROJECT, until

# A worker that is started again has Spark to start, and the tick after that to wait for.
SPARK_SECONDS = 60
PROMPT_SECONDS = 10


def all_workers(scene: Scene) -> str:
    """Kill the three workers, main processes first or last, all within a moment."""
    names = ["io", "spark-redelivery", "spark-batch"]
    scene.dice.shuffle(names)
    for process in [scene.installation.process_of(name) for name in names]:
        kill(scene.installation, process)
    return f"kill -9 of {', '.join(names)}"


def two_beats(scene: Scene) -> str:
    """Run a second beat for some seconds beside the first one."""
    beat = scene.installation.process_of("beat")
    command = beat.cmdline()[1:]
    command[command.index("-s") + 1] = str(scene.installation.home / "second-schedule")
    seconds = scene.dice.randint(4, 8)
    second = subprocess.Popen(
        [sys.executable, *command],
        env=beat.environ(),
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(seconds)
        assert second.poll() is None, "the second beat has ended by itself"
    finally:
        second.kill()
        second.wait()
    return f"a second beat for {seconds} s"


def jvm(scene: Scene) -> str:
    """Kill the Java process in which redelivery runs."""
    kill(scene.installation, jvm_of(scene.installation, "spark-redelivery"))
    return "kill -9 of the JVM of redelivery"


def python_worker(scene: Scene) -> str:
    """Kill a Python process in which a task delivers."""
    until(lambda: python_workers_of(scene.installation, "spark-redelivery"), 30)
    chosen = scene.dice.choice(python_workers_of(scene.installation, "spark-redelivery"))
    kill(scene.installation, chosen)
    return "kill -9 of a Python worker that delivers"


def task_daemon(scene: Scene) -> str:
    """Kill the process that forks the Python workers, and all of them with it."""
    victims = [one for one in spark_of(scene.installation, "spark-redelivery") if one.name() != "java"]
    for victim in victims:
        kill(scene.installation, victim)
    return f"kill -9 of all {len(victims)} Python processes of Spark"


def stopped_for_a_while(scene: Scene) -> str:
    """Stop the Python workers with SIGSTOP, longer than a heartbeat and shorter than a lease, and let them go on."""
    victims = python_workers_of(scene.installation, "spark-redelivery")
    seconds = scene.dice.uniform(2, 5)
    for victim in victims:
        if victim.is_running():
            victim.suspend()
    time.sleep(seconds)
    for victim in victims:
        if victim.is_running() and victim.status() == psutil.STATUS_STOPPED:
            victim.resume()
    return f"SIGSTOP of {len(victims)} Python workers for {seconds:.1f} s"


FAULTS = (
    Fault("F5", "io", kill_named("io"), PROMPT_SECONDS),
    Fault("F5", "spark-redelivery", kill_named("spark-redelivery"), SPARK_SECONDS),
    Fault("F5", "spark-batch", kill_named("spark-batch"), PROMPT_SECONDS),
    Fault("F5", "all workers", all_workers, SPARK_SECONDS),
    Fault("F5", "beat", kill_named("beat"), PROMPT_SECONDS),
    Fault("F5", "two beats", two_beats, PROMPT_SECONDS),
    Fault("F5", "web", kill_named("web"), PROMPT_SECONDS, web_may_be_away=True),
    Fault("F5", "valkey", kill_named("valkey"), PROMPT_SECONDS),
    Fault("F7", "JVM", jvm, SPARK_SECONDS),
    Fault("F7", "Python worker", python_worker, PROMPT_SECONDS),
    Fault("F7", "Python daemon", task_daemon, PROMPT_SECONDS),
    Fault("F18", "SIGSTOP", stopped_for_a_while, PROMPT_SECONDS),
)
