"""`manage.py migrate`: Django's own, as the role that owns the tables."""

import time
from typing import Any

import psycopg
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connection

from poisonadmin.store.roles import as_owner, grant_to

# Who waits for a table keeps those waiting who come after, so the migration waits shortly, and often.
LOCK_TIMEOUT = "1s"
TRIES = 30
PAUSE_SECONDS = 1.0
_IN_THE_WAY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


class Command(migrate.Command):
    """Use MIGRATION_DATABASE_URL where it is set; the role of DATABASE_URL has what it needs afterwards."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate, then grant: tables that are new belong to the owner alone."""
        with as_owner() as running:
            self._once_nobody_is_in_the_way(running, *args, **options)

    def _once_nobody_is_in_the_way(self, running: str | None, *args: Any, **options: Any) -> None:
        # Each migration is a transaction, so a new try goes on where the last one stopped.
        for tries_left in range(TRIES - 1, -1, -1):
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT set_config('lock_timeout', %s, FALSE)", [LOCK_TIMEOUT])
                super().handle(*args, **options)
                if running:
                    grant_to(running)
                with connection.cursor() as cursor:
                    cursor.execute("RESET lock_timeout")  # whoever called this goes on with the connection
                return
            except OperationalError as error:
                if not isinstance(error.__cause__, _IN_THE_WAY):
                    raise
                connection.close()
                if not tries_left:
                    raise CommandError(
                        f"Other processes held the tables in each of {TRIES} tries: stop beat, workers and web "
                        "processes, and run `manage.py migrate` again; it goes on where it stopped."
                    ) from error
                self.stderr.write("Other processes hold the tables; trying again.")
                time.sleep(PAUSE_SECONDS)
