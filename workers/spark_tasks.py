"""The Celery tasks of the two Spark workers, and their start and end."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.signals import worker_process_init, worker_shutting_down

from poisonadmin.core.commands.locks import Tick, single_flight
from poisonadmin.rules.commands.dry_runs import dry_run_due
from poisonadmin.sources.commands.directories import ingest_due
from poisonadmin.sources.commands.draining import Workshop, drain_due
from workers import spark_worker
from workers.celery_app import app, do_each, worker_name
from workers.spark.jobs.drain import count_waiting as waiting_in
from workers.spark.jobs.drain import drain
from workers.spark.jobs.dry_run import try_rule
from workers.spark.jobs.ingest import stage_files
from workers.spark_worker import SparkWorker

# A little less than the tick's period, so that the next tick finds the worker free. In between nothing is claimed.
PUMP_SECONDS = 2.98


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _start_spark(**_: Any) -> None:
    spark_worker.start(worker_name())


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop_spark(**_: Any) -> None:
    # In a thread: this is a signal handler, and what it interrupts may hold the connection.
    threading.Thread(target=spark_worker.stop, name="stop").start()


@app.task  # type: ignore[untyped-decorator]
def redeliver_tick(**_: Any) -> None:
    """Deliver what is due until the next tick comes."""
    spark_worker.current().pump.run_for(PUMP_SECONDS)


@app.task  # type: ignore[untyped-decorator]
def batch_tick(**_: Any) -> None:
    """Take in files, then dead letters, then go on with dry runs; each also when another one fails."""
    do_each(*(partial(_unless_it_stops, work, spark_worker.current()) for work in (_ingest, _drain, _dry_run)))


def _unless_it_stops(work: Callable[[SparkWorker], None], worker: SparkWorker) -> None:
    if not worker.is_stopping:
        work(worker)


def _ingest(worker: SparkWorker) -> None:
    ingest_due(
        partial(stage_files, worker.spark),
        worker=worker.name,
        keeper=worker.keeper,
        is_stopping=lambda: worker.is_stopping,
    )


def _drain(worker: SparkWorker) -> None:
    with single_flight(Tick.DRAIN) as alone:
        if alone:
            drain_due(
                Workshop(
                    waiting_in,
                    partial(drain, worker.spark),
                    worker=worker.name,
                    keeper=worker.keeper,
                    is_stopping=lambda: worker.is_stopping,
                )
            )


def _dry_run(worker: SparkWorker) -> None:
    with single_flight(Tick.DRY_RUN) as alone:
        if alone:
            dry_run_due(
                partial(try_rule, worker.spark),
                worker=worker.name,
                keeper=worker.keeper,
                is_stopping=lambda: worker.is_stopping,
            )
