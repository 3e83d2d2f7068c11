"""`manage.py regroup`."""

from typing import Any

from django.core.management.base import BaseCommand

from poisonadmin.groups.commands.regrouping import request_regrouping


class Command(BaseCommand):
    """A worker carries it out; deliveries go on meanwhile, and failures stay in their groups."""

    help = "Give all stored failures the fingerprints that the rules of this version make of them."

    def handle(self, *_: Any, **__: Any) -> None:
        """Ask for it, or say how far it is."""
        run = request_regrouping(actor="command line")
        phase = "moving failures" if run.planned_at else f"read up to message {run.surveyed:,} of {run.cut_off:,}"
        self.stdout.write(f"Regrouping #{run.id}: {phase}. {run.read:,} failures read, {run.changed:,} change.")
        self.stdout.write("The worker spark-batch carries it out; the page Jobs shows how far it is.")
