"""Checks that the database has the schema that this code was written for."""

import logging
import re
from collections.abc import Sequence
from contextlib import ExitStack

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DEFAULT_DB_ALIAS, DatabaseError, OperationalError, connection, connections
from django.db.backends.utils import CursorWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

log = logging.getLogger(__name__)

# The last of the 43 migrations that made the tables of 723c9e82, which `0001_schema` takes over.
LAST_FORMER = "0043_age_names"
# What a later version's migration that only adds is called; *Rules for migrations* in docs/operate/production.md.
EXPAND = re.compile(r"\d{4}_expand_")


class UnusableDatabase(RuntimeError):
    """Raised at start when migrations are missing, when the database has some that this code does not know and that do
    not only add, or when it gives no sessions."""


def check_schema(*, needs_sessions: bool = True) -> None:
    """Do nothing when code and schema fit; a database that is away is left to answer later.

    Every process calls this at its start, so the log says here which variables are no settings, and which migrations of
    a later version are left aside. Errors: `UnusableDatabase`, naming the migrations.
    """
    for text in settings.UNKNOWN_VARIABLES:
        log.warning(text)
    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except OperationalError as error:
        log.warning("the schema was not checked: %s", str(error).splitlines()[0])
        return
    finally:
        connection.close()
    if needs_sessions:
        _require_sessions()
    known = set(MigrationLoader(None).disk_migrations)
    added, unknown = _later(applied)
    if added:
        log.warning(
            "the database has migrations that this version does not know and that only add (%s): it goes on without",
            ", ".join(added),
        )
    if unknown and LAST_FORMER not in unknown:
        raise UnusableDatabase(
            f"the database has migrations that this version does not know ({', '.join(unknown)}): "
            "start the newer version, or restore the backup that was made before it"
        )
    if missing := sorted(f"{app}.{name}" for app, name in known - applied):
        raise UnusableDatabase(
            f"the database lacks {len(missing)} migrations ({', '.join(missing[:3])}…): run `manage.py migrate`"
        )


def _require_sessions() -> None:
    try:
        if has_sessions():
            return
    except OperationalError as error:
        log.warning("whether there is a pooler was not checked: %s", str(error).splitlines()[0])
        return
    raise UnusableDatabase(f"{_NO_SESSIONS} {_SESSION_HINT}")


_NO_SESSIONS = "The database is behind a pooler that gives each transaction another session."
_SESSION_HINT = "Set pool_mode = session there, or name the server itself: locks and notifications need sessions."
_ROUNDS = 8


def has_sessions() -> bool:
    """Return whether each connection has a session of its own, and not one that others use between its transactions.

    A pooler in transaction mode gives two connections that are idle the same one, or each another one from time to
    time: where it gives those that others have just left, and where it gives them in turn, which is why every second
    round goes backwards.
    """
    with ExitStack() as until_the_end:
        asked: list[tuple[CursorWrapper, set[int]]] = []
        for _ in range(2):
            one = connections.create_connection(DEFAULT_DB_ALIAS)
            until_the_end.callback(one.close)
            asked.append((one.cursor(), set()))
        for number in range(_ROUNDS):
            for cursor, sessions in asked[:: (-1) ** number]:
                cursor.execute("SELECT pg_backend_pid()")
                sessions.add(cursor.fetchone()[0])
    [(_, ones), (_, others)] = asked
    return len(ones) == len(others) == 1 and ones != others


def _later(applied: set[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the applied migrations of the tables that this version does not have: those that only add, and others."""
    names = sorted(name for app, name in applied - set(MigrationLoader(None).disk_migrations) if app == "store")
    return [name for name in names if EXPAND.match(name)], [name for name in names if not EXPAND.match(name)]


@register(Tags.database)
def check_former_migrations(databases: Sequence[str] | None = None, **_: object) -> list[CheckMessage]:
    """Refuse to migrate a database with unknown migrations that are not all of those that `0001_schema` follows.

    Those that only add are passed: a former version's `migrate` is run on the way back, too, and has nothing to do.
    """
    if not databases:
        return []
    try:
        unknown = _later(set(MigrationRecorder(connection).applied_migrations()))[1]
    except DatabaseError:
        return []
    if not unknown or LAST_FORMER in unknown:
        return []
    text = f"The database has {unknown[-1]}, which no migration of this version follows."
    hint = "If it is older than this version, run `manage.py migrate` of commit 723c9e82, then this one."
    return [Error(text, hint, id="store.E001")]


@register(Tags.database)
def check_encoding(databases: Sequence[str] | None = None, **_: object) -> list[CheckMessage]:
    """Refuse a database that is not in UTF-8: others hold no text, or give it back as bytes."""
    if not databases:
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_encoding")
            [encoding] = cursor.fetchone()
    except DatabaseError:
        return []
    if encoding == "UTF8":
        return []
    hint = "Create it with ENCODING 'UTF8' TEMPLATE template0."
    return [Error(f"The database is in {encoding}, and must be in UTF8.", hint, id="store.E002")]


@register(Tags.database)
def check_sessions(databases: Sequence[str] | None = None, **_: object) -> list[CheckMessage]:
    """Refuse to migrate through a pooler in transaction mode: others would be left its time-outs and locks."""
    try:
        is_usable = not databases or has_sessions()
    except DatabaseError:
        return []
    return [] if is_usable else [Error(_NO_SESSIONS, _SESSION_HINT, id="store.E003")]


@register()
def check_variables(**_: object) -> list[CheckMessage]:
    """Warn of variables of the environment that look like ours and are none."""
    return [checks.Warning(text, id="store.W001") for text in settings.UNKNOWN_VARIABLES]
