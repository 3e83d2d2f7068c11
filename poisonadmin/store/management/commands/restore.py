"""`manage.py restore PLACE`: what `manage.py backup` wrote, into an empty database."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from poisonadmin.system.commands.backups import bring_back


class Command(BaseCommand):
    """See docs/operate/production.md, "Backup and restore". Nothing of PoisonAdmin may run on the database yet."""

    help = "Restore a backup into an empty database, as the role of MIGRATION_DATABASE_URL, and migrate it."
    requires_system_checks: list[str] = []  # noqa: RUF012  (as Django has it)

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the directory."""
        parser.add_argument("place", type=Path)

    def handle(self, *_: Any, **options: Any) -> None:
        """Say that it is done."""
        self.stdout.write(bring_back(options["place"]))
