"""The Celery application: what runs when. Celery only wakes up and looks; the timetable is in PostgreSQL."""

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partialmethod
from importlib import import_module
from typing import Any

import django
import structlog
from celery import Celery, Task
from celery.app.amqp import AMQP
from celery.signals import beat_init, celeryd_init, task_postrun, task_prerun, worker_ready
from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, close_old_connections
from kombu.connection import Connection
from kombu.transport import redis, virtual

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "poisonadmin.settings")
try:
    django.setup()
except ImproperlyConfigured as error:
    sys.exit(f"{error}.")

from django.conf import settings

from poisonadmin.core.commands.locks import Tick, single_flight
from poisonadmin.core.domain.errors import first_line
from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.core.queries.read_only import read_only_mode
from poisonadmin.store.schema import UnusableDatabase, check_schema
from workers.heartbeat import WorkerHeartbeat, end_when_stalled, ticks

IO = "io"
SPARK_REDELIVERY = "spark-redelivery"
SPARK_BATCH = "spark-batch"
# The tasks of each queue's worker. Nobody imports those of another: Spark's client takes 60 MB and a second.
MODULES = {IO: "workers.tasks", SPARK_REDELIVERY: "workers.spark_tasks", SPARK_BATCH: "workers.spark_tasks"}

KEY_PREFIX = "poisonadmin:"


class TickQoS(redis.QoS):
    """Lets a worker take the next tick although Redis does not take the acknowledgement of the last one.

    Kombu forgets an acknowledgement that fails, and counts its message as under way for ever: a worker that takes one
    at a time would take none any more. What stays in Redis is restored after an hour, and has expired by then.
    """

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge; the message is no longer under way, also where that fails."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except Exception:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
            raise


redis.Channel.QoS = TickQoS


class PromptConnection(Connection):
    """Tries every two seconds to reach Redis again; Celery would wait for half a minute in the end."""

    ensure_connection = partialmethod(Connection.ensure_connection, interval_step=0)


AMQP.Connection = PromptConnection


class TickTask(Task):  # type: ignore[misc]
    """A tick. While the installation is read-only, it does something only where it ends what was begun, or observes."""

    in_read_only = frozenset({"message_tick", "redeliver_tick", "seal_tick", "count_tick", "alert_tick"})

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Do the work of the tick."""
        if self.name.rpartition(".")[2] in self.in_read_only or read_only_mode() is None:
            return super().__call__(*arguments, **named)
        return None


app = Celery("poisonadmin", broker=settings.REDIS_URL, task_cls=TickTask)
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    result_accept_content=["json"],
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={"global_keyprefix": KEY_PREFIX, "socket_timeout": 10, "socket_connect_timeout": 5},
    task_default_queue=IO,
    timezone="UTC",
    beat_scheduler="workers.beat:SteadyScheduler",
    # A tick that nobody took in time is dropped: the next one does the same work. Two beats at once do no harm.
    # The expiry is a time by the beat's clock, so it leaves room for a worker's that is ahead.
    beat_schedule={
        f"{queue} {name}": {
            "task": f"{MODULES[queue]}.{name}",
            "schedule": seconds,
            "options": {"queue": queue, "expires": max(seconds * 2, 30.0)},
        }
        for queue, ticks in {
            SPARK_REDELIVERY: {"redeliver_tick": 3.0},
            SPARK_BATCH: {"batch_tick": 2.0, "report_file_tick": 600.0},
            IO: {
                # While something is delivered, the worker that delivers recovers too, and more often.
                "message_tick": 1.0,
                "operation_tick": 1.0,
                "restart_tick": 5.0,
                "seal_tick": 10.0,
                "broker_check_tick": 1.0,
                "alert_tick": 15.0,
                "lane_tick": 30.0,
                "count_tick": 15.0,
                "housekeeping_tick": 600.0,
                "archive_tick": 600.0,
            },
        }.items()
        for name, seconds in ticks.items()
    },
)

_name = "worker"


def do_each(*works: Callable[[], object]) -> None:
    """Do what a tick is for, one work after the other, each also when another one fails; raise the last error."""
    with ExitStack() as last_first:
        for work in reversed(works):
            last_first.callback(work)


def do_alone(tick: Tick, *works: Callable[[], object]) -> None:
    """Do each of the works, unless another process is at this tick."""
    with single_flight(tick) as alone:
        if alone:
            do_each(*works)


def worker_name() -> str:
    """Return the name of this process's worker, which no other one has: `spark-batch@host`."""
    return _name


def worker_kind() -> str:
    """Return what the worker is for, the name of its queue: `spark-batch`."""
    return _name.partition("@")[0]


class WithoutTraceback(logging.Filter):
    """Has a tick that finds the database away say so in one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, (OperationalError, InterfaceError)):
            record.exc_info, record.args = None, None
            record.msg = f"the database does not answer: {first_line(error)}"
        return True


# The logger of what tasks raise.
logging.getLogger("celery.app.trace").addFilter(WithoutTraceback())


@celeryd_init.connect  # type: ignore[untyped-decorator]
def _load_tasks(sender: str, **_: Any) -> None:
    global _name
    _name = sender
    import_module(MODULES.get(worker_kind(), MODULES[IO]))


# Celery closes the database session of a worker before and after each task, unless it is told after how many. Ours go
# on as CONN_MAX_AGE says; what broke is closed before the next task.
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize


@task_prerun.connect  # type: ignore[untyped-decorator]
def _begin_tick(sender: Any, task_id: str, **_: Any) -> None:
    ticks.begin(task_id)
    # What the lines of the tick say of themselves; its works add theirs, until the next tick begins.
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(tick=sender.name.rpartition(".")[2])
    close_old_connections()


@task_postrun.connect  # type: ignore[untyped-decorator]
def _end_tick(task_id: str, **_: Any) -> None:
    ticks.end(task_id)


@worker_ready.connect  # type: ignore[untyped-decorator]
def _show_life(**_: Any) -> None:
    if worker_kind() == IO:  # the others have theirs with their Spark
        WorkerHeartbeat(database_url(os.environ), worker_name())
    watched = [settings.REDIS_URL, f"{KEY_PREFIX}{worker_kind()}", settings.ALIVE_FILE]
    threading.Thread(target=end_when_stalled, args=watched, name="tick-watch", daemon=True).start()


@celeryd_init.connect  # type: ignore[untyped-decorator]
@beat_init.connect  # type: ignore[untyped-decorator]
def _check_schema(**_: object) -> None:
    try:
        check_schema()
    except UnusableDatabase as error:
        # Celery writes an error of a signal's receiver down and goes on.
        raise SystemExit(f"not started: {error}") from None
