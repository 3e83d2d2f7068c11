"""`manage.py backup FILE`: everything that the database holds, as of one moment, while PoisonAdmin runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from poisonadmin.store.backup import back_up


class Command(BaseCommand):
    """See docs/operate/production.md, "Backup and restore"."""

    help = "Write a backup of the database to a file, which must not exist."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the file."""
        parser.add_argument("file", type=Path)

    def handle(self, *_: Any, **options: Any) -> None:
        """Say how large the file is."""
        back_up(options["file"])
        self.stdout.write(f"{options['file']}: {options['file'].stat().st_size:,} bytes")
