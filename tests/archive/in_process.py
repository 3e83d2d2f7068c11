"""Writes pieces in this process, without Spark; `python -m tests.archive.in_process` goes on with the archive until it
is over, or killed, and says which steps it takes."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import django

from poisonadmin.archive.domain.pieces import PieceOrder, WriteOrder, WrittenPiece
from workers.spark.jobs import archive as job
from workers.spark.jobs.archive import SparkArchiveStore

_PAYLOAD_STEPS = ("remove_live", "_remove_of_piece")


class InProcessStore(SparkArchiveStore):
    """The store, with the tasks' work done here."""

    def __init__(self, place: str) -> None:
        super().__init__(None, place)  # type: ignore[arg-type]

    def write(self, order: WriteOrder, pieces: Sequence[PieceOrder]) -> Mapping[int, WrittenPiece]:
        """Write the pieces one after the other."""
        rows = [row for part in range(len(pieces)) for row in job._write_piece(order, pieces, part)]
        empty = dict.fromkeys(("versions", "table"))
        return job.as_written([empty | row for row in rows])


def main() -> None:
    """Print a line a step, and end when no run and no erasure is open."""
    django.setup()
    settings: Any = import_module("django.conf").settings
    runs: Any = import_module("poisonadmin.archive.commands.runs")
    erasing: Any = import_module("poisonadmin.archive.commands.erasing")
    payloads: Any = import_module("poisonadmin.archive.commands.payloads")
    engine: Any = import_module("poisonadmin.runs.commands.engine")
    models: Any = import_module("poisonadmin.store.models.run")
    runs.PIECE_MESSAGES = 10
    store = InProcessStore(settings.ARCHIVE)
    runs._PAYLOADS_A_STEP = payloads.WINDOW_MESSAGES = 10
    steps = (
        (runs, "prune"),
        (runs, "_note"),
        (erasing, "rewritten_without"),
        *((payloads, one) for one in _PAYLOAD_STEPS),
    )
    for module, name in steps:
        setattr(module, name, _said(getattr(module, name), name))
    while models.LongRun.objects.filter(kind__in=("archive", "erase"), ended_at=None):
        for module in (erasing, runs):
            engine.carry_out(module.work(store), worker="batch")


def _said(step: Any, name: str) -> Any:
    def say(*given: Any, **more: Any) -> Any:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        return step(*given, **more)

    return say


if __name__ == "__main__":
    main()
