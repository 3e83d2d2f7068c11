"""`manage.py encrypt_secrets [--forget]`."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from poisonadmin.core.domain.encryption import encryption_keys
from poisonadmin.core.domain.secret_settings import ENCRYPTION_KEYS, FILE_OF
from poisonadmin.store.management.commands._operator import BY
from poisonadmin.system.commands.encryption import encrypt_anew


class Command(BaseCommand):
    """It may run while the system works. Afterwards only the first key is needed."""

    help = "Encrypt the stored secrets with the first key; exit 1 when no key decrypts one."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--forget`."""
        parser.add_argument("--forget", action="store_true", help="remove the secrets that no key decrypts")

    def handle(self, *_: Any, **options: Any) -> None:
        """Print how many there are, and each that no key decrypts."""
        has_keys = bool(encryption_keys(os.environ))
        if options["forget"] and not has_keys:
            raise CommandError(f"Without {FILE_OF[ENCRYPTION_KEYS]} no secret can be read: name that file first.")
        changed, lost = encrypt_anew(actor=BY, is_forgetting=options["forget"])
        for one in lost:
            self.stdout.write(f"{one}: {'removed' if options['forget'] else 'no key decrypts its secrets'}")
        how = (
            "are encrypted with the first key"
            if has_keys
            else f"are not encrypted: {FILE_OF[ENCRYPTION_KEYS]} is not set"
        )
        self.stdout.write(f"The secrets of {changed} destinations, sources, alerts and reports {how}.")
        if lost and not options["forget"]:
            raise CommandError(f"{len(lost)} cannot be read: add their key, or remove them with --forget.")
