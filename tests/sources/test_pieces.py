"""Batch work in pieces: all of them are done, and deliveries keep their slots."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from workers.spark import pieces
from workers.spark.pieces import do_pieces, tasks_side_by_side
from workers.spark.tables.columns import RowSchema

SHAPE = RowSchema("piece long, began double, ended double")


def _timed(piece: int) -> list[dict[str, Any]]:
    began = time.time()
    time.sleep(0.2)
    return [{"piece": piece, "began": began, "ended": time.time()}]


def _failing_once(note: Path, piece: int) -> list[dict[str, Any]]:
    if piece == 3 and not note.exists():
        note.touch()
        raise RuntimeError("the first try of this task")
    return [{"piece": piece}]


def test_no_piece_is_no_job(spark: "SparkSession") -> None:
    assert do_pieces(spark, 0, _timed, SHAPE) == []


def test_every_piece_is_done_once_also_when_a_task_is_tried_again(spark: "SparkSession", tmp_path: Path) -> None:
    rows = do_pieces(spark, 11, partial(_failing_once, tmp_path / "note"), SHAPE)
    assert sorted(row["piece"] for row in rows) == list(range(11))


@pytest.mark.parametrize("jobs", [1, 3])
def test_so_many_pieces_run_at_a_time_whatever_the_number_of_jobs(
    spark: "SparkSession", jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.spark.pieces.BATCH_TASKS", 2)
    monkeypatch.setattr("workers.spark.pieces._free", 2)
    with ThreadPoolExecutor(jobs) as threads:
        running = [threads.submit(do_pieces, spark, 6, _timed, SHAPE) for _ in range(jobs)]
        rows = [row for one in running for row in one.result()]
    assert len(rows) == 6 * jobs
    at_once = [sum(one["began"] <= row["began"] < one["ended"] for one in rows) for row in rows]
    assert max(at_once) == 2


def test_on_a_cluster_as_many_tasks_read_as_it_has_cores(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tasks_side_by_side(spark, in_one_process=3) == 3
    monkeypatch.setattr(pieces, "_is_one_process", lambda _: False)
    cores = spark.sparkContext.defaultParallelism
    assert tasks_side_by_side(spark) == cores
    with pieces.batch_slots(spark) as tasks, pieces.batch_slots(spark, 70) as wanted:
        assert (tasks, wanted) == (cores, 70)
