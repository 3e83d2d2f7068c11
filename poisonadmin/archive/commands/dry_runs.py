"""A dry run counts what a run would archive, and whose payloads it would remove; it changes nothing."""

import json

from django.db import transaction

from poisonadmin.archive.commands import payloads
from poisonadmin.archive.commands.holds import note_held
from poisonadmin.archive.domain.chosen import CHOSEN
from poisonadmin.core.queries.rows import fetch_rows
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.queries.id_ranges import next_ranges
from poisonadmin.store.models.archive import ArchiveRun

_MESSAGES_A_STEP = 100_000
_COUNT = f"""
SELECT a.name, m.state, count(*) {CHOSEN} GROUP BY 1, 2
"""


def count_some(run: ArchiveRun) -> bool:
    """Count some more, live ones first, and note it in the run's totals; return whether all is counted."""
    ranges = next_ranges(run.planned, run.cut_off, messages=_MESSAGES_A_STEP, most=1)
    if ranges:
        _count_live(run, ranges[0])
        return False
    window = payloads.next_window(run)
    if window is None:
        return True
    with transaction.atomic():
        _add_payloads(run, payloads.count_archived(run, window))
        run.archived_payloads = window.until
        ArchiveRun.objects.filter(id=run.id).update(totals=run.totals, archived_payloads=window.until)
    return False


def _count_live(run: ArchiveRun, messages: IdRange) -> None:
    values = {"after": messages.after, "until": messages.until, "cutoffs": json.dumps(run.cutoffs)}
    by_address: dict[str, dict[str, int]] = run.totals.setdefault("addresses", {})
    with transaction.atomic():
        note_held(messages.after, messages.until)
        for address, state, count in fetch_rows(_COUNT, values):
            states = by_address.setdefault(address, {})
            states[state] = states.get(state, 0) + count
        _add_payloads(run, payloads.count_live(run, messages))
        run.planned = messages.until
        ArchiveRun.objects.filter(id=run.id).update(totals=run.totals, planned=run.planned)


def _add_payloads(run: ArchiveRun, counts: dict[str, int]) -> None:
    for address, count in counts.items():
        by_address = run.totals.setdefault("payloads", {})
        by_address[address] = by_address.get(address, 0) + count
