"""Catching a statement of PoisonAdmin in the middle, so that the fault finds it there.

A trigger on the history keeps the statement waiting: its messages are changed, their history is not written yet.
"""

import contextlib
from collections.abc import Iterator

import psycopg

from tests.faults.run import Scene
from tests.whole_system.installation import until

# What only these statements contain, within the first kilobyte: the database shows no more of them.
STATEMENTS = {
    "claim": "INSERT INTO claim (lease_until",
    "settle": "outcome = 'delivered'",
    "merge": "staged.expires_at\n    FROM staged_message AS staged JOIN address",
}
CATCH_SECONDS = 60

_SET_UP = """
CREATE OR REPLACE FUNCTION fault_waits() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF position(TG_ARGV[0] IN current_query()) > 0 THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER fault_waits BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION fault_waits('{}')
"""
_CLEAR = "DROP TRIGGER IF EXISTS fault_waits ON history"
_CAUGHT = """
SELECT pid FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND wait_event = 'advisory' AND position(%s IN query) > 0
"""


@contextlib.contextmanager
def caught(scene: Scene, statement: str) -> Iterator[int]:
    """Yield the session that is in the middle of the statement. It goes on, if it can, when the context is left."""
    url = scene.installation.superuser_url
    try:
        with psycopg.connect(url, autocommit=True) as holder, psycopg.connect(url, autocommit=True) as looker:
            found: list[int] = []

            def is_caught() -> bool:
                found[:] = [row[0] for row in looker.execute(_CAUGHT, [STATEMENTS[statement]]).fetchall()]
                return bool(found)

            holder.execute("SELECT pg_advisory_lock(4711)")
            looker.execute(_SET_UP.format(STATEMENTS[statement].replace("'", "''")))  # type: ignore[arg-type]
            until(is_caught, CATCH_SECONDS, lambda: f"no {statement} came by")
            yield found[0]
    finally:
        clear(scene)


def clear(scene: Scene) -> None:
    """Take the trigger away; nothing where the database does not answer."""
    with (
        contextlib.suppress(psycopg.OperationalError),
        psycopg.connect(scene.installation.superuser_url, autocommit=True) as session,
    ):
        session.execute(_CLEAR)
