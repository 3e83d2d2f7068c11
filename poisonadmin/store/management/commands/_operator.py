"""The base of the commands that carry out what an administrator could do through the API too."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from poisonadmin.core.domain.errors import PoisonAdminError

# The actor in the audit log.
BY = "command line"


class OperatorCommand(BaseCommand):
    """A command that ends with the sentence of an error of ours, not with a traceback."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command."""
        try:
            return super().execute(*args, **options)
        except PoisonAdminError as error:
            raise CommandError(error.detail) from error
