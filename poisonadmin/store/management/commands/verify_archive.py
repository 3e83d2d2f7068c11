"""`manage.py verify_archive`."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from poisonadmin.messages.queries.archived_index import damaged_files
from poisonadmin.store.models.archive import ArchiveFile


class Command(BaseCommand):
    """Reads all files of the archive once; the system may go on meanwhile."""

    help = "Compare the files of the archive with the checksums noted when they were written; exit 1 when they differ."

    def handle(self, *_: Any, **__: Any) -> None:
        """Print each file that is damaged or gone."""
        damaged = 0
        for _path, why in damaged_files():
            self.stdout.write(why)
            damaged += 1
        count = ArchiveFile.objects.filter(is_current=True).count()
        if damaged:
            raise CommandError(f"{damaged} of {count} files are damaged or gone; bring them back from a backup.")
        self.stdout.write(f"All {count} files of the archive are as they were written.")
