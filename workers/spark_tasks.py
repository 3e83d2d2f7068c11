"""The Celery tasks of the two Spark workers, and their start and end."""

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.signals import worker_process_init, worker_shutting_down
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connections
from pyspark.sql import SparkSession

from poisonadmin.archive.commands import erasing
from poisonadmin.archive.commands import runs as archive_runs
from poisonadmin.comparisons.commands import carry_out as comparisons
from poisonadmin.core.commands.locks import Tick
from poisonadmin.core.domain.archive_place import within
from poisonadmin.core.domain.errors import first_line
from poisonadmin.groups.alike import commands as alike_groups
from poisonadmin.groups.commands import regrouping
from poisonadmin.reports.commands import carry_out as reports
from poisonadmin.reports.commands.requests import remove_expired_files
from poisonadmin.rules import commands as rules
from poisonadmin.runs.commands.engine import RunWork, carry_out
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import due_kinds
from poisonadmin.search.deep.commands import searching as searches
from poisonadmin.sources.commands import draining
from poisonadmin.sources.commands.directories import ingest_due
from workers import spark_worker
from workers.celery_app import app, do_alone, do_each, worker_kind, worker_name
from workers.spark.jobs.alike import find_alike
from workers.spark.jobs.archive import SparkArchiveStore
from workers.spark.jobs.compare import compare
from workers.spark.jobs.drain import count_waiting as waiting_in
from workers.spark.jobs.drain import drain
from workers.spark.jobs.dry_run import try_rule
from workers.spark.jobs.ingest import stage_files
from workers.spark.jobs.regroup import SparkFailureReader
from workers.spark.jobs.report import collect
from workers.spark.jobs.search import find
from workers.spark.pieces import tasks_side_by_side
from workers.spark_worker import SparkWorker

# A little less than the tick's period, so that the next tick finds the worker free. In between nothing is claimed.
DISPATCH_SECONDS = 2.98
SEARCH_CHECK_SECONDS = 0.5
SECONDS_AFTER_ERROR = 5.0

log = logging.getLogger(__name__)


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _start_spark(**_: Any) -> None:
    spark_worker.start(worker_name())
    if worker_kind() == spark_worker.BATCH:
        threading.Thread(
            target=_carry_out_searches, args=[spark_worker.current()], name="searches", daemon=True
        ).start()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop_spark(**_: Any) -> None:
    # In a thread: this is a signal handler, and what it interrupts may hold the connection.
    threading.Thread(target=spark_worker.stop, name="stop").start()


@app.task  # type: ignore[untyped-decorator]
def redeliver_tick(**_: Any) -> None:
    """Deliver what is due until the next tick comes."""
    spark_worker.current().dispatcher.run_for(DISPATCH_SECONDS)


@app.task  # type: ignore[untyped-decorator]
def batch_tick(**_: Any) -> None:
    """Take in files and dead letters, then carry out requested runs.

    Each is done also when another one fails.
    """
    works = (_ingest, _drain, _runs)
    do_each(*(partial(_unless_it_stops, work, spark_worker.current()) for work in works))


def _unless_it_stops(work: Callable[[SparkWorker], None], worker: SparkWorker) -> None:
    if not worker.is_stopping:
        work(worker)


def _ingest(worker: SparkWorker) -> None:
    ingest_due(partial(stage_files, worker.spark), **_turn_of(worker))


def _drain(worker: SparkWorker) -> None:
    if draining.is_any_due():
        drainer = draining.Drainer(waiting_in, partial(drain, worker.spark), **_turn_of(worker))
        do_alone(Tick.DRAIN, partial(draining.drain_due, drainer))


def works_of(spark: SparkSession) -> tuple[RunWork, ...]:
    """Return the work of each kind of run that this worker carries out, in the order of their turns."""
    store = SparkArchiveStore(spark, settings.ARCHIVE)
    return (
        rules.dry_run_work(partial(try_rule, spark)),
        comparisons.work(partial(compare, spark)),
        alike_groups.work(partial(find_alike, spark)),
        reports.work(partial(collect, spark)),
        regrouping.work(SparkFailureReader(spark)),
        erasing.work(store),
        archive_runs.work(store),
    )


@app.task  # type: ignore[untyped-decorator]
def report_file_tick(**_: Any) -> None:
    """Remove the files of reports that have expired. Here, for the worker `io` does without Arrow's 60 MB."""
    remove_expired_files()


def _runs(worker: SparkWorker) -> None:
    due = due_kinds()
    works = [one for one in works_of(worker.spark) if one.kind.name in due] if due else []
    do_each(reports.give_up_ended, *(partial(_unless_it_stops, partial(_carry_out, one), worker) for one in works))


def _carry_out(work: RunWork, worker: SparkWorker) -> None:
    carry_out(work, **_turn_of(worker))


def _turn_of(worker: SparkWorker) -> dict[str, Any]:
    """Return what each work is told of the worker that does it."""
    return {"worker": worker.name, "heartbeat": worker.heartbeat, "is_stopping": lambda: worker.is_stopping}


def _carry_out_searches(worker: SparkWorker) -> None:
    """Carry out searches until the worker ends, in a thread of its own: those who search wait for the first hits."""
    searching = searches.Searching(
        partial(find, worker.spark),
        partial(within, settings.ARCHIVE),
        tasks=partial(tasks_side_by_side, worker.spark, in_one_process=searches.TASKS),
    )
    while not worker.is_stopping:
        close_old_connections()
        try:
            if KindName.SEARCH in due_kinds():
                carry_out(searches.work(searching), **_turn_of(worker), seconds=math.inf)
        except (OperationalError, InterfaceError) as error:
            log.warning("the database does not answer: %s", first_line(error))
            time.sleep(SECONDS_AFTER_ERROR)
        except Exception:
            log.exception("a search has failed")
            time.sleep(SECONDS_AFTER_ERROR)
        time.sleep(SEARCH_CHECK_SECONDS)
    connections.close_all()
