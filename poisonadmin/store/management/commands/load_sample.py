"""`manage.py load_sample`: what `make demo` shows."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from sample.load import MAX_SECONDS, MESSAGES_PER_SECOND, keep_going, load_once


class Command(BaseCommand):
    """Safe to run again: nothing is handed in twice, and what an administrator changed stays changed."""

    help = "Configure the sample's destinations and policies and hand its messages in."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--once`."""
        parser.add_argument("--once", action="store_true", help="do not go on with new messages afterwards")
        parser.add_argument("--keep-going", action="store_true", help="go on with new messages (the default)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Say how many messages were handed in."""
        created = load_once(datetime.now(UTC))
        self.stdout.write(f"{created} sample messages handed in")
        if options["once"]:
            return
        self.stdout.write(f"{MESSAGES_PER_SECOND:g} new ones a second follow, for {MAX_SECONDS // 3600} hours")
        self.stdout.write(f"{keep_going()} new sample messages handed in; that is all")
