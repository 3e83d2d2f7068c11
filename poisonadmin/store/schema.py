"""Whether the database's schema is the one that this code was written for."""

import logging

from django.db import OperationalError, connection
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
    known = set(MigrationLoader(None).disk_migrations)
    if unknown := sorted(name for app, name in applied - known if app == "store"):
        raise SchemaMismatch(
            f"the database has migrations that this version does not know ({', '.join(unknown)}): "
            "start the newer version, or restore the backup that was made before it"
        )
    if missing := sorted(f"{app}.{name}" for app, name in known - applied):
        raise SchemaMismatch(
            f"the database lacks {len(missing)} migrations ({', '.join(missing[:3])}…): run `manage.py migrate`"
        )
