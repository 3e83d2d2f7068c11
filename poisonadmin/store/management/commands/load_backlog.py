"""`manage.py load_backlog`: an installation with millions of dead letters, to try it out on."""

import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from poisonadmin.store.management.commands._operator import OperatorCommand


class Command(OperatorCommand):
    """Runs in a checkout only: the sample is no part of what is installed."""

    help = "Load messages with errors, attempts and history by COPY, alike for each seed; for load tests."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add how many, of how many groups."""
        parser.add_argument("--messages", type=int, default=100_000)
        parser.add_argument("--groups", type=int, default=400, help="failure groups (default 400)")
        parser.add_argument("--seed", type=int, default=1, help="another one makes other messages (default 1)")
        parser.add_argument("--force", action="store_true", help="also where there are messages")

    def handle(self, *_: Any, **options: Any) -> None:
        """Say how far it is."""
        from sample.backlog.load import load_backlog

        if options["messages"] < options["groups"] or options["groups"] < 1:
            raise CommandError("There are at least as many messages as groups, and at least one group.")
        began = time.monotonic()

        def say(done: int) -> None:
            if done % 100_000 == 0 or done == options["messages"]:
                self.stdout.write(f"{done:,} messages after {time.monotonic() - began:.0f} s")

        load_backlog(**{name: options[name] for name in ("messages", "groups", "seed", "force")}, say=say)
