"""`manage.py backup PLACE`: everything that PoisonAdmin keeps, as of one moment, while it runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from poisonadmin.system.commands.backups import back_up


class Command(BaseCommand):
    """See docs/operate/production.md, "Backup and restore"."""

    help = "Write a backup of the database, the archive and the reports to a directory, which must not exist."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the directory, and what is left out."""
        parser.add_argument("place", type=Path)
        parser.add_argument("--without-archive", action="store_true", help="leave out the files of the archive")

    def handle(self, *_: Any, **options: Any) -> None:
        """Say what the backup has."""
        self.stdout.write(back_up(options["place"], with_archive=not options["without_archive"]))
