"""A worker that takes in a source and may be killed: `python -m tests.ingest.run_ingest SOURCE [spark]`.

Prints a line a step, so that whoever kills it can choose when.
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import django

django.setup()

from poisonadmin.domain.source_files import FileToTake, StagedFile  # noqa: E402  (after setup)
from poisonadmin.operations import sources  # noqa: E402
from poisonadmin.operations.ingest_merge import Merged, merge_staged  # noqa: E402
from workers.spark import sinks  # noqa: E402
from workers.spark.jobs import ingest  # noqa: E402

PART_BYTES = 3000


def say(what: str) -> None:
    print(what, flush=True)


def stage_here(files: Sequence[FileToTake]) -> list[StagedFile]:
    """Stage without Spark: the same steps, one part after the other, in this process."""

    def run(_spark: object, parts: Sequence[ingest.Part], work: object, _shape: object) -> list[ingest.Row]:
        return [{"part": place, **work(part)} for place, part in enumerate(parts)]  # type: ignore[operator]

    ingest._run = run
    return ingest.stage_files(None, files, part_bytes=PART_BYTES)


def main(source_id: int, how: str) -> None:
    slices, stage = sinks._copy_good, sinks.stage

    def told_copy(*arguments: object) -> None:
        slices(*arguments)  # type: ignore[arg-type]
        say("slice")

    def told_stage(*arguments: object) -> sinks.Counted:
        counted = stage(*arguments)  # type: ignore[arg-type]
        say("part")
        return counted

    def told_merge(batch: str, **keywords: object) -> Merged:
        merged = merge_staged(batch, **keywords)  # type: ignore[arg-type]
        say("merge")
        return merged

    sinks._copy_good, sinks.stage = told_copy, told_stage
    sinks.SLICE_ROWS = 10
    sources.merge_staged = told_merge
    sources.WAVE_FILES = 2
    if how == "spark":
        from workers.spark.session import start_session

        staging = partial(ingest.stage_files, start_session("tests", master="local[2,4]"), part_bytes=PART_BYTES)
    else:
        staging = stage_here
    say("begin")
    sources.ingest_source(source_id, stage=staging, worker="tests")
    say("end")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
    os._exit(0)
