"""`manage.py read_only on REASON | off`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.read_only import read_only_mode
from poisonadmin.store.management.commands._operator import OperatorCommand
from poisonadmin.system.commands.read_only import switch_read_only


class Command(OperatorCommand):
    """Every process follows within a second."""

    help = "Make the whole installation read-only, or end that; without an argument, say which it is."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `on` or `off`, and the reason."""
        parser.add_argument("switch", choices=("on", "off"), nargs="?")
        parser.add_argument("reason", nargs="?", default="", help="what everybody reads who is refused")

    def handle(self, *_: Any, **options: Any) -> None:
        """Switch, and print which it is."""
        switch, reason = options["switch"], options["reason"].strip()
        if switch == "on" and not reason:
            raise CommandError('Give a reason: manage.py read_only on "The database moves".')
        if switch:
            switch_read_only(reason if switch == "on" else None, principal=SYSTEM)
        mode = read_only_mode()
        text = f"PoisonAdmin is read-only, since {mode.since:%F %T} UTC: {mode.reason}" if mode else "It takes changes."
        self.stdout.write(text)
