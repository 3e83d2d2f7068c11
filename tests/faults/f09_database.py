"""F9: the database stopped, its sessions ended, used up, or it refuses to write."""

import contextlib
import signal
import time
from collections.abc import Callable

import psutil
import psycopg

from tests.faults.kills import kill, until_database_answers, until_restarted
from tests.faults.moments import STATEMENTS, caught, clear
from tests.faults.run import Fault, Scene

# Counted from the first session that the database takes again. For ten seconds after its restart nobody is declared
# dead for his silence, so what was under way comes back after that.
BACK_SECONDS = 20
PROMPT_SECONDS = 10


def stopped_during(statement: str) -> Callable[[Scene], str]:
    """Return a strike: an `immediate` stop in the middle of the statement; the supervisor starts the server again."""

    def strike(scene: Scene) -> str:
        former = scene.installation.pid_of("postgres")
        with contextlib.suppress(psycopg.OperationalError), caught(scene.installation.superuser_url, statement):
            kill(scene.installation, psutil.Process(former), signal.SIGQUIT)
        until_restarted(scene.installation, "postgres", former)
        until_database_answers(scene.installation)
        clear(scene.installation.superuser_url)
        return f"immediate stop in the middle of a {statement}"

    return strike


def killed(scene: Scene) -> str:
    """Kill the server's first process."""
    former = scene.installation.pid_of("postgres")
    kill(scene.installation, psutil.Process(former))
    until_restarted(scene.installation, "postgres", former)
    until_database_answers(scene.installation)
    return "kill -9 of postgres"


def one_session_ended_during(statement: str) -> Callable[[Scene], str]:
    """Return a strike: the session in the middle of the statement is terminated."""

    def strike(scene: Scene) -> str:
        with caught(scene.installation.superuser_url, statement) as session:
            _superuser(scene, "SELECT pg_terminate_backend(%s)", session)
        return f"the session in the middle of a {statement} terminated"

    return strike


def sessions_ended(scene: Scene) -> str:
    """End sessions of PoisonAdmin at random, again and again."""
    rounds = scene.dice.randint(3, 6)
    for _ in range(rounds):
        _superuser(
            scene,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'poisonadmin' AND random() < %s",
            scene.dice.choice([0.3, 0.6, 1.0]),
        )
        time.sleep(scene.dice.uniform(0.2, 1.0))
    return f"{rounds} times some of its sessions terminated"


def read_only(scene: Scene) -> str:
    """Let the database refuse to write for some seconds."""
    seconds = scene.dice.uniform(2, 5)
    _superuser(scene, "ALTER SYSTEM SET default_transaction_read_only = on")
    _superuser(scene, "SELECT pg_reload_conf()")
    try:
        time.sleep(seconds)
    finally:
        _superuser(scene, "ALTER SYSTEM RESET default_transaction_read_only", is_writing=True)
        _superuser(scene, "SELECT pg_reload_conf()")
    return f"read-only for {seconds:.1f} s"


def connections_exhausted(scene: Scene) -> str:
    """Take every connection there is for some seconds, and end sessions, so that PoisonAdmin asks for new ones."""
    seconds = scene.dice.uniform(3, 6)
    with contextlib.ExitStack() as taken:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                taken.enter_context(
                    contextlib.closing(psycopg.connect(scene.installation.database_url, connect_timeout=5))
                )
            except psycopg.OperationalError:
                _superuser(
                    scene,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'poisonadmin'"
                    " AND application_name LIKE 'poisonadmin%%' AND random() < 0.3",
                )
                time.sleep(0.2)
    return f"no connection to be had for some of {seconds:.1f} s"


def _superuser(scene: Scene, statement: str, *values: object, is_writing: bool = False) -> None:
    options = "-c default_transaction_read_only=off" if is_writing else ""
    with psycopg.connect(scene.installation.superuser_url, autocommit=True, options=options) as session:
        session.execute(statement, values or None)  # type: ignore[arg-type]


FAULTS = (
    *(Fault("F9", f"immediate stop, {name}", stopped_during(name), BACK_SECONDS) for name in STATEMENTS),
    Fault("F9", "kill -9 of postgres", killed, BACK_SECONDS),
    *(Fault("F9", f"session ended, {name}", one_session_ended_during(name), PROMPT_SECONDS) for name in STATEMENTS),
    Fault("F9", "sessions ended", sessions_ended, PROMPT_SECONDS),
    Fault("F9", "read-only", read_only, PROMPT_SECONDS),
    Fault("F9", "connections exhausted", connections_exhausted, PROMPT_SECONDS),
)
