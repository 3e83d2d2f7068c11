"""Ending processes of an installation under test, and of no other."""

import contextlib
import signal
from collections.abc import Callable, Iterable

import psutil
import psycopg

from poisonadmin.core.domain.spark_settings import SETTINGS
from poisonadmin.embedded.processes import MARK
from tests.faults.run import Scene
from tests.whole_system.installation import Installation, until
from workers.delivery.handler.destination import CHILD

RESTART_SECONDS = 180
# What stands in the command lines of the processes that Spark and deliveries start.
SANDBOX = CHILD
DAEMON = SETTINGS["spark.python.daemon.module"]


def kill(installation: Installation, process: psutil.Process, how: signal.Signals = signal.SIGKILL) -> None:
    """Send the signal, after making sure that the process belongs to the installation."""
    with contextlib.suppress(psutil.NoSuchProcess):
        assert is_ours(installation, process), f"{process} does not belong to {installation.home}"
        process.send_signal(how)


def is_ours(installation: Installation, process: psutil.Process) -> bool:
    """Return whether the process was started by the installation's supervisor, or by what that started."""
    if process.environ().get(MARK) == str(installation.home):
        return True
    return installation.process.pid in {parent.pid for parent in process.parents()}


def kill_named(name: str) -> Callable[[Scene], str]:
    """Return a strike: kill -9 of the process that the supervisor calls so. It is over at once."""

    def strike(scene: Scene) -> str:
        pid = scene.installation.pid_of(name)
        kill(scene.installation, psutil.Process(pid))
        return f"kill -9 of {name}"

    return strike


def until_restarted(installation: Installation, name: str, former: int) -> None:
    """Return once the supervisor has started another process of the name."""
    until(lambda: installation.pid_of(name) != former, RESTART_SECONDS, lambda: installation.output[-3000:])


def until_database_answers(installation: Installation) -> None:
    """Return once the database takes sessions."""

    def answers() -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            return installation.rows("SELECT 1") == [(1,)]
        return False

    until(answers, RESTART_SECONDS)


def jvm_of(installation: Installation, worker: str) -> psutil.Process:
    """Return the Java process in which a Spark worker's jobs run."""
    return next(one for one in spark_of(installation, worker) if one.name() == "java")


def python_workers_of(installation: Installation, worker: str) -> list[psutil.Process]:
    """Return the Python processes in which Spark's tasks of a worker run, but for the daemon that forks them."""
    pythons = running(DAEMON, spark_of(installation, worker))
    daemons = {one.pid for one in pythons if parent_is_java(one)}
    return [one for one in pythons if one.pid not in daemons] or pythons


def spark_of(installation: Installation, worker: str) -> list[psutil.Process]:
    """Return the processes in which a Spark worker's jobs run: the embedded server's, else those that it started."""
    if "started spark (" not in installation.output:
        return descendants(installation, worker)
    return [installation.process_of("spark"), *descendants(installation, "spark")]


def running(program: str, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those of the processes that run the program, a path or a module."""
    return [one for one in processes if program in command(one)]


def descendants(installation: Installation, name: str) -> list[psutil.Process]:
    """Return what a process of the supervisor has started, and what that has."""
    return installation.process_of(name).children(recursive=True)


def command(process: psutil.Process) -> list[str]:
    """Return a process's command line; empty when it is gone."""
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def parent_is_java(process: psutil.Process) -> bool:
    """Return whether a Java process started it."""
    with contextlib.suppress(psutil.Error):
        parent = process.parent()
        return parent is not None and parent.name() == "java"
    return False
