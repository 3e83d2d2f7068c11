"""The moments at which faults strike: a statement of the product is caught in its middle.

A trigger on the history keeps it waiting: its messages are changed, their history is not written yet. A statement is
named by its place in the product's code and compared as a whole, so that it may be rewritten without telling anybody
here; `tests/faults/test_moments.py` shows that each comes by.
"""

import contextlib
import pkgutil
import re
from collections.abc import Iterator

import psycopg
from psycopg import sql

from tests.whole_system.installation import until

STATEMENTS = {
    "claim": "poisonadmin.delivery.commands.claim:_TAKE",
    "settle": "poisonadmin.delivery.commands.settle:_DELIVERED",
    "merge": "poisonadmin.intake.commands.merge:_ENQUEUE",
}
CATCH_SECONDS = 60


class NoSuchStatement(Exception):
    """Raised when the product has no statement of the name; says which."""


_FUNCTION = """
CREATE OR REPLACE FUNCTION fault_waits() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF current_query() LIKE TG_ARGV[0] THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
    RETURN NEW;
END $$
"""
_TRIGGER = sql.SQL(
    "CREATE OR REPLACE TRIGGER fault_waits BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION fault_waits({})"
)
_CLEAR = "DROP TRIGGER IF EXISTS fault_waits ON history; DROP FUNCTION IF EXISTS fault_waits"
_CAUGHT = """
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND (classid, objid, objsubid) = (0, 4711, 1) AND NOT granted
"""
_TOKEN = re.compile(r"%%|%\(\w+\)s|%s|[\\_]")
_WRITTEN = {"%%": r"\%", "_": r"\_", "\\": r"\\"}


@contextlib.contextmanager
def caught(url: str, moment: str, *, within: float = CATCH_SECONDS) -> Iterator[int]:
    """Yield the session that is in the middle of the statement. It goes on, if it can, when the context is left.

    `url`: the database's, for the owner of its tables or a superuser. `within`: seconds. Errors: `NoSuchStatement`;
    `AssertionError` when it does not come by.
    """
    pattern = pattern_of(statement_of(moment))
    try:
        with psycopg.connect(url, autocommit=True) as holder, psycopg.connect(url, autocommit=True) as looker:
            found: list[int] = []

            def is_caught() -> bool:
                found[:] = [pid for (pid,) in looker.execute(_CAUGHT).fetchall()]
                return bool(found)

            holder.execute("SELECT pg_advisory_lock(4711)")
            looker.execute(_FUNCTION)
            looker.execute(_TRIGGER.format(pattern))
            until(is_caught, within, lambda: f"no {moment} came by")
            yield found[0]
    finally:
        clear(url)


def clear(url: str) -> None:
    """Take the trigger away; nothing where the database does not answer."""
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as session:
        session.execute(_CLEAR)


def statement_of(moment: str) -> str:
    """Return the product's statement. Errors: `NoSuchStatement`."""
    name = STATEMENTS[moment]
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError) as error:
        raise NoSuchStatement(f"the moment {moment} is {name}, which is gone: {error}") from error
    if not isinstance(found, str):
        raise NoSuchStatement(f"the moment {moment} is {name}, which is no statement")
    return found


def pattern_of(statement: str) -> str:
    """Return what LIKE finds the statement by, as it is sent with any parameters.

    >>> pattern_of("SELECT %(one)s, a_b %% 2")
    'SELECT %, a\\\\_b \\\\% 2'
    """
    return _TOKEN.sub(lambda token: _WRITTEN.get(token[0], "%"), statement)
