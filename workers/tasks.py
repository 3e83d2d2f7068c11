"""The Celery tasks: load, one call inward. Ticks are acknowledged early, expire, and run one at a time."""

import threading
from functools import partial
from typing import Any

from celery.signals import celeryd_init, worker_process_init, worker_shutting_down

from poisonadmin.core.commands.locks import Tick, single_flight
from poisonadmin.delivery.commands.crash_recovery import sweep_journals
from poisonadmin.delivery.commands.ordered_conversations import clear_lanes
from poisonadmin.messages.commands.counts import fold
from poisonadmin.messages.commands.expiry import expire_due
from poisonadmin.restart_jobs.commands import restart_due
from poisonadmin.rules.commands.dry_runs import dry_run_due
from poisonadmin.sources.commands.broker_checks import answer_due
from poisonadmin.sources.commands.directories import ingest_due
from poisonadmin.sources.commands.draining import Workshop, drain_due
from poisonadmin.system.commands.housekeeping import clean_up
from workers import spark_worker
from workers.brokers.checking import check_broker
from workers.celery_app import IO, SPARK_BATCH, SPARK_REDELIVERY, app
from workers.crash_recovery import LocalJournals, recover_here
from workers.spark.jobs.drain import count_waiting as waiting_in
from workers.spark.jobs.drain import drain
from workers.spark.jobs.dry_run import try_rule
from workers.spark.jobs.ingest import stage_files

# A little less than the tick's period, so that the next tick finds the worker free. In between nothing is claimed.
PUMP_SECONDS = 2.98

_name = "worker"


@celeryd_init.connect  # type: ignore[untyped-decorator]
def _remember_name(sender: str, **_: Any) -> None:
    global _name
    _name = sender.split("@", maxsplit=1)[0]


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _start_spark(**_: Any) -> None:
    if _name.startswith("spark-"):
        spark_worker.start(_name)


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop_spark(**_: Any) -> None:
    # In a thread: this is a signal handler, and what it interrupts may hold the connection.
    threading.Thread(target=spark_worker.stop, name="stop").start()


@app.task(queue=SPARK_REDELIVERY)  # type: ignore[untyped-decorator]
def redeliver_tick(**_: Any) -> None:
    """Deliver what is due until the next tick comes."""
    spark_worker.current().pump.run_for(PUMP_SECONDS)


@app.task(queue=IO)  # type: ignore[untyped-decorator]
def recover_tick(**_: Any) -> None:
    """Settle what is answered, and give back what dead nodes held."""
    with single_flight(Tick.RECOVER) as alone:
        if alone:
            recover_here()


@app.task(queue=IO)  # type: ignore[untyped-decorator]
def expire_tick(**_: Any) -> None:
    """Give up what waits past its expiry."""
    with single_flight(Tick.EXPIRE) as alone:
        if alone:
            expire_due()


@app.task(queue=IO)  # type: ignore[untyped-decorator]
def fold_tick(**_: Any) -> None:
    """Fold the counters."""
    fold()


@app.task(queue=IO)  # type: ignore[untyped-decorator]
def lane_tick(**_: Any) -> None:
    """Remove the lanes of conversations that are over."""
    with single_flight(Tick.LANES) as alone:
        if alone:
            clear_lanes()


@app.task(queue=IO)  # type: ignore[untyped-decorator]
def housekeeping_tick(**_: Any) -> None:
    """Remove what is only kept for a while."""
    with single_flight(Tick.HOUSEKEEPING) as alone:
        if alone:
            clean_up()
            sweep_journals(LocalJournals())


@app.task(queue=IO)  # type: ignore[untyped-decorator]
def restart_tick(**_: Any) -> None:
    """Run the restart jobs that are due."""
    with single_flight(Tick.RESTART) as alone:
        if alone:
            restart_due(worker=_name)


@app.task(queue=IO)  # type: ignore[untyped-decorator]
def look_tick(**_: Any) -> None:
    """Look at the brokers that somebody asks about."""
    with single_flight(Tick.LOOK) as alone:
        if alone:
            answer_due(check_broker)


@app.task(queue=SPARK_BATCH)  # type: ignore[untyped-decorator]
def ingest_tick(**_: Any) -> None:
    """Take in the files that have arrived in directory sources."""
    worker = spark_worker.current()
    ingest_due(
        partial(stage_files, worker.spark),
        worker=worker.name,
        keeper=worker.keeper,
        is_stopping=lambda: worker.is_stopping,
    )


@app.task(queue=SPARK_BATCH)  # type: ignore[untyped-decorator]
def drain_tick(**_: Any) -> None:
    """Take in the dead letters that wait in the queues of broker sources."""
    worker = spark_worker.current()
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


@app.task(queue=SPARK_BATCH)  # type: ignore[untyped-decorator]
def dry_run_tick(**_: Any) -> None:
    """Go on with the dry runs that are asked for."""
    worker = spark_worker.current()
    with single_flight(Tick.DRY_RUN) as alone:
        if alone:
            dry_run_due(
                partial(try_rule, worker.spark),
                worker=worker.name,
                keeper=worker.keeper,
                is_stopping=lambda: worker.is_stopping,
            )
