"""`manage.py migrate`: Django's own, as the role that owns the tables."""

from typing import Any

from django.core.management.commands import migrate

from poisonadmin.store.roles import as_owner, grant_to


class Command(migrate.Command):
    """Use MIGRATION_DATABASE_URL where it is set; the role of DATABASE_URL has what it needs afterwards."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate, then grant: tables that are new belong to the owner alone."""
        with as_owner() as running:
            super().handle(*args, **options)
            if running:
                grant_to(running)
