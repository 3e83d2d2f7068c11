"""`manage.py doctor`."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from poisonadmin.system.commands.doctor import examine


class Command(BaseCommand):
    """It changes nothing, but for a file in the archive that it writes and removes."""

    help = "Try everything that an installation needs, and say what to do; exit 1 when something is wrong."
    requires_system_checks = ()  # it says what these would, and goes on

    def handle(self, *_: Any, **__: Any) -> None:
        """Print a line of each thing."""
        wrong = 0
        for found in examine():
            wrong += bool(found.advice)
            word, advice = ("WRONG", f": {found.advice}") if found.advice else ("ok", "")
            self.stdout.write(f"{word:5}  {found.thing:9} {found.words}{advice}")
        self.stdout.write(f"\n{wrong} to mend." if wrong else "\nAll is well.")
        if wrong:
            sys.exit(1)
