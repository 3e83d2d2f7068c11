"""Checks that the database has the schema that this code was written for."""

import logging
from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError, OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

log = logging.getLogger(__name__)


class SchemaMismatch(RuntimeError):
    """Raised at start when migrations are missing, or when the database has some that this code does not know."""


def check_schema() -> None:
    """Do nothing when code and schema fit; a database that is away is left to answer later.

    Errors: `SchemaMismatch`, naming the migrations.
    """
    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except OperationalError as error:
        log.warning("the schema was not checked: %s", str(error).splitlines()[0])
        return
    finally:
        connection.close()
    disk = MigrationLoader(None).disk_migrations
    known = set(disk)
    if unknown := sorted(name for app, name in applied - known - replaced(disk) if app == "store"):
        raise SchemaMismatch(
            f"the database has migrations that this version does not know ({', '.join(unknown)}): "
            "start the newer version, or restore the backup that was made before it"
        )
    if missing := sorted(f"{app}.{name}" for app, name in known - applied):
        raise SchemaMismatch(
            f"the database lacks {len(missing)} migrations ({', '.join(missing[:3])}…): run `manage.py migrate`"
        )


def replaced(disk: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    """Return the migrations that those on disk stand for."""
    return {former for migration in disk.values() for former in migration.replaces}


@register(Tags.database)
def check_former_migrations(databases: Sequence[str] | None = None, **_: object) -> list[CheckMessage]:
    """Refuse to migrate a database that has applied some of the migrations that `0001_tables` replaces, and not all.

    Django would leave its tables as they are, and say nothing.
    """
    if not databases:
        return []
    try:
        applied = set(MigrationRecorder(connection).applied_migrations())
    except DatabaseError:
        return []
    former = replaced(MigrationLoader(None).disk_migrations)
    if former <= applied or not (former & applied):
        return []
    hint = "Run `manage.py migrate` of commit 723c9e82, then this one."
    missing = len(former - applied)
    return [Error(f"The database lacks {missing} of the {len(former)} former migrations.", hint, id="store.E001")]
