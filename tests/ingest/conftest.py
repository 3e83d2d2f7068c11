"""A directory source, and Spark to stage what is in it."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from poisonadmin.operations.sources import Ingested, Stage, ingest_source
from poisonadmin.store.models import Source
from workers.spark.jobs.ingest import stage_files

Ingest = Callable[[], Ingested | None]


class Inbox:
    """The directory of a source."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.source = Source.objects.create(name="inbox", kind="directory", config={"path": str(directory)})

    def drop(self, name: str | bytes, content: bytes, *, age_seconds: float = 10) -> bytes:
        """Put a file there as if it had been written `age_seconds` ago; return its path."""
        path = os.fsencode(self.directory) + b"/" + os.fsencode(name)
        Path(os.fsdecode(path)).write_bytes(content)
        then = time.time_ns() - int(age_seconds * 1e9)
        os.utime(path, ns=(then, then))
        return path

    def files(self) -> list[tuple[str, int, int, int]]:
        """Return (state, accepted, duplicates, rejected) of each file, in the order in which they were seen."""
        rows = self.source.sourcefile_set.order_by("id")
        return [(row.state, row.accepted, row.duplicates, row.rejected) for row in rows]


@pytest.fixture
def inbox(transactional_db: None, tmp_path: Path) -> Inbox:
    """Return an empty directory that is a source."""
    return Inbox(tmp_path / "inbox")


@pytest.fixture
def stage(spark: SparkSession, test_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return what the batch worker stages files with, cutting them small."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)
    return partial(stage_files, spark, part_bytes=3000)


@pytest.fixture
def ingest(inbox: Inbox, stage: Stage) -> Ingest:
    """Return a function that takes in what waits in the inbox."""
    return lambda: ingest_source(inbox.source.id, stage=stage, worker="tests")
