"""`manage.py verify_audit`: whether the audit log is as it was sealed."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from poisonadmin.system.queries.audit import count_unsealed, verify_audit


def _noted(text: str) -> tuple[int, str]:
    entry_id, _, seal = text.partition(":")
    if not entry_id.isdecimal() or len(seal) != 64:
        raise CommandError(f"{text[:100]} is no ID:SEAL such as a former run has printed.")
    return int(entry_id), seal.lower()


class Command(BaseCommand):
    """See docs/operate/production.md, "Audit log"."""

    help = "Compare every entry of the audit log with its seal, and name those that were changed, removed or added."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what is known of the seals."""
        parser.add_argument("--noted", action="append", default=[], metavar="ID:SEAL", help="a seal of a former run")

    def handle(self, *_: Any, **options: Any) -> None:
        """Print what is wrong, and until where the log is sealed."""
        compared = verify_audit(dict(_noted(text) for text in options["noted"]))
        for finding in compared.findings:
            self.stdout.write(f"Entry {finding.entry_id} {finding.what}.")
        if compared.found > len(compared.findings):
            self.stdout.write(f"And {compared.found - len(compared.findings):,} more.")
        self.stdout.write(f"{compared.entries:,} entries are sealed, {count_unsealed():,} wait for their seal.")
        if compared.entries:
            self.stdout.write(f"The latest seal is {compared.last_id}:{compared.head.hex()}")
        if compared.found:
            raise CommandError(f"The audit log is not as it was sealed: {compared.found:,} findings.")
        self.stdout.write("The audit log is as it was sealed.")
