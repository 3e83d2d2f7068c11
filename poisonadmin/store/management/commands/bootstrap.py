"""`manage.py bootstrap`: the user `admin` and its token, on a new installation; what an upgrade has to fill in."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from poisonadmin.archive.commands.ownership import ForeignArchive, require_own_archive
from poisonadmin.policies.commands import apply_policies
from poisonadmin.sources.domain.roots import INBOX
from poisonadmin.system.commands.accounts import TOKEN_FILE, bootstrap


class Command(BaseCommand):
    """Run at each start, after the migrations. Makes no user where `admin` exists."""

    help = (
        "Create the user admin with a random password, printed once, and an API token in POISONADMIN_HOME; "
        "make the directory inbox there; write down of each address what the policies say; "
        "write the installation's id into an empty archive."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--password-stdin`."""
        parser.add_argument("--password-stdin", action="store_true", help="read the password from the first line")

    def handle(self, *_: Any, **options: Any) -> None:
        """Say what was made."""
        password = sys.stdin.readline().rstrip("\n") if options["password_stdin"] else None
        if password == "":
            raise CommandError("The password on standard input is empty.")
        apply_policies()
        if not (inbox := settings.HOME / INBOX).is_symlink():  # one may lead to a share that is not there yet
            inbox.mkdir(parents=True, exist_ok=True)
        try:
            require_own_archive()
        except (ForeignArchive, OSError) as error:  # the rest can do without the archive
            self.stderr.write(f"warning: {error}")
        made = bootstrap(settings.HOME, password=password)
        if made is None:
            self.stdout.write(f"The user admin exists; its token was written to {settings.HOME / TOKEN_FILE}.")
            return
        self.stdout.write(f"user:     {made.username}")
        if password is None:
            self.stdout.write(f"password: {made.password}   (shown this once)")
        self.stdout.write(f"token:    {made.token_file}")
