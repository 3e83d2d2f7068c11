"""F14: a second session in the way: deadlocks, lock time-outs, statement time-outs."""

import contextlib
import time

import psycopg

from tests.faults.moments import STATEMENTS, caught
from tests.faults.run import Fault, Scene

PROMPT_SECONDS = 10


def cancelled(scene: Scene) -> str:
    """Cancel a statement in its middle, as a statement time-out does, one kind after the other."""
    names = list(STATEMENTS)
    scene.dice.shuffle(names)
    for name in names:
        with caught(scene.installation.superuser_url, name) as session, _superuser(scene) as other:
            other.execute("SELECT pg_cancel_backend(%s)", [session])
    return f"cancelled in the middle: {', '.join(names)}"


def lock_timeouts(scene: Scene) -> str:
    """Give PoisonAdmin a lock time-out, and hold what it needs."""
    seconds = scene.dice.uniform(2, 4)
    table = scene.dice.choice(["history", "lane", "message", "counter_delta", "attempt"])
    with _superuser(scene) as other:
        other.execute("ALTER ROLE poisonadmin SET lock_timeout = '300ms'")
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'poisonadmin'")
        try:
            with other.transaction():
                other.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")  # type: ignore[arg-type]
                time.sleep(seconds)
        finally:
            other.execute("ALTER ROLE poisonadmin RESET lock_timeout")
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'poisonadmin'")
    return f"{table} locked for {seconds:.1f} s, lock time-out 300 ms"


def deadlocks(scene: Scene) -> str:
    """Lock lanes and messages the wrong way round, again and again; the database ends one of the two."""
    lost = 0
    for _ in range(5):
        with _superuser(scene) as other, contextlib.suppress(psycopg.errors.DeadlockDetected):
            try:
                with other.transaction():
                    other.execute("SELECT FROM message WHERE state = 'DLNG' ORDER BY id DESC LIMIT 20 FOR UPDATE")
                    other.execute("LOCK TABLE counter_delta IN EXCLUSIVE MODE")
                    time.sleep(scene.dice.uniform(0.2, 0.5))
                    other.execute("SELECT FROM lane ORDER BY id DESC FOR UPDATE")
                    other.execute("SELECT FROM message WHERE state <> 'DLVD' ORDER BY id DESC LIMIT 200 FOR UPDATE")
            except psycopg.errors.DeadlockDetected:
                lost += 1
    return f"5 rounds of locks the wrong way round, {lost} lost by us"


def _superuser(scene: Scene) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(scene.installation.superuser_url, autocommit=True)


FAULTS = (
    Fault("F14", "statements cancelled", cancelled, PROMPT_SECONDS),
    Fault("F14", "lock time-outs", lock_timeouts, PROMPT_SECONDS),
    Fault("F14", "deadlocks", deadlocks, PROMPT_SECONDS),
)
