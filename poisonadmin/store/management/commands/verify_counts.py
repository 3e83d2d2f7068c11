"""`manage.py verify_counts [--repair]`."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from poisonadmin.messages.commands.counts import verify
from poisonadmin.store.management.commands._operator import BY


class Command(BaseCommand):
    """Reads all messages once; the system may go on meanwhile."""

    help = "Compare the counts of messages with the messages, in one snapshot; exit 1 when they differ."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--repair`."""
        parser.add_argument("--repair", action="store_true", help="correct the counts that are wrong")

    def handle(self, *_: Any, **options: Any) -> None:
        """Print each count that is wrong."""
        wrong = verify(is_repair=options["repair"], actor=BY)
        for one in wrong:
            reason, group, original = one.reason or "-", one.group_id or "-", one.original_address or "-"
            self.stdout.write(
                f"{one.address} {one.state} reason {reason}, group {group}, original address {original}: "
                f"counted {one.counted}, there are {one.there}"
            )
        if wrong and not options["repair"]:
            raise CommandError(f"{len(wrong)} counts are wrong; --repair corrects them.")
        self.stdout.write(f"{len(wrong)} counts were wrong and are corrected." if wrong else "All counts are right.")
