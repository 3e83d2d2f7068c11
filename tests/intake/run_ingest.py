"""A worker that takes in a source and may be killed: `python -m tests.intake.run_ingest SOURCE [spark]`.

Prints a line a step, so that whoever kills it can choose when.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import django

django.setup()

from poisonadmin.intake.commands.merge import merge_staged  # noqa: E402
from poisonadmin.sources.commands import directories  # noqa: E402
from poisonadmin.sources.commands.directories import Stage  # noqa: E402
from poisonadmin.sources.domain.files import FileToTake, StagedFile  # noqa: E402  (after setup)
from workers.spark import sinks  # noqa: E402
from workers.spark.jobs import ingest  # noqa: E402
from workers.spark.sources import FilePart  # noqa: E402

PART_BYTES = 3000


def say(what: str) -> None:
    print(what, flush=True)


def stage_here(files: Sequence[FileToTake]) -> Sequence[StagedFile]:
    """Stage without Spark: the same steps, one part after the other, in this process."""

    def run(_spark: object, parts: Sequence[FilePart], work: Callable[[FilePart], Any], _shape: object) -> list[Any]:
        return [{"part": place, **work(part)} for place, part in enumerate(parts)]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ingest, "_run", run)
        return ingest.stage_files(None, files, part_bytes=PART_BYTES)


def staging_by(how: str) -> Stage:
    """Return how to stage files: `spark`, or anything else for this process alone."""
    if how != "spark":
        return stage_here
    from workers.spark.session import start_session

    return partial(ingest.stage_files, start_session("tests", master="local[2,4]"), part_bytes=PART_BYTES)


def telling(what: str, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return `step`, saying `what` after each time it was done."""

    def told(*arguments: Any, **keywords: Any) -> Any:
        done = step(*arguments, **keywords)
        say(what)
        return done

    return told


def main(source_id: int, how: str) -> None:
    """Take in the source, in small steps."""
    patched = pytest.MonkeyPatch()
    patched.setattr(sinks, "SLICE_ROWS", 10)
    patched.setattr(sinks, "_copy_good", telling("slice", sinks._copy_good))
    patched.setattr(sinks, "stage", telling("part", sinks.stage))
    patched.setattr(directories, "WAVE_FILES", 2)
    patched.setattr(directories, "merge_staged", telling("merge", merge_staged))
    stage = staging_by(how)
    say("begin")
    directories.ingest_source(source_id, stage=stage, worker="tests")
    say("end")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
    os._exit(0)
