"""`manage.py regroup`."""

from typing import Any

from django.core.management.base import BaseCommand

from poisonadmin.groups.commands.regroup_groups import NOTHING_READ
from poisonadmin.groups.commands.regrouping import request_regrouping
from poisonadmin.store.management.commands._operator import BY


class Command(BaseCommand):
    """A worker carries it out; deliveries go on meanwhile, and failures stay in their groups."""

    help = "Give all stored failures the fingerprints that the rules of this version make of them."

    def handle(self, *_: Any, **__: Any) -> None:
        """Ask for it, or say how far it is."""
        run = request_regrouping(actor=BY)
        surveyed = f"read up to message {run.position.get('surveyed', 0):,} of {run.params['cut_off']:,}"
        phase = "moving failures" if run.position.get("is_decided") else surveyed
        read, changed = ((run.result or NOTHING_READ)[name] for name in ("read", "changed"))
        self.stdout.write(f"Regrouping #{run.id}: {phase}. {read:,} failures read, {changed:,} change.")
        self.stdout.write("The worker spark-batch carries it out; the page Jobs shows how far it is.")
