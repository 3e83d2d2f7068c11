"""Carries out searches, in a thread of its own: who searches waits for the first hits, and ticks may take long."""

import logging
import math
import threading
import time
from functools import partial

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connections

from poisonadmin.core.domain.archive_place import within
from poisonadmin.core.domain.errors import first_line
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import due_kinds
from poisonadmin.search.deep.commands.searching import TASKS, Searching, work
from workers.spark.jobs.search import find
from workers.spark.pieces import tasks_side_by_side
from workers.spark_worker import SparkWorker

CHECK_SECONDS = 0.5
SECONDS_AFTER_ERROR = 5.0

log = logging.getLogger(__name__)


def start(worker: SparkWorker) -> None:
    """Carry out searches from now on, until the worker is to end."""
    threading.Thread(target=_run, args=[worker], name="searches", daemon=True).start()


def _run(worker: SparkWorker) -> None:
    searching = Searching(
        partial(find, worker.spark),
        partial(within, settings.ARCHIVE),
        tasks=partial(tasks_side_by_side, worker.spark, in_one_process=TASKS),
    )
    while not worker.is_stopping:
        close_old_connections()
        try:
            if KindName.SEARCH in due_kinds():
                carry_out(
                    work(searching),
                    worker=worker.name,
                    heartbeat=worker.heartbeat,
                    is_stopping=lambda: worker.is_stopping,
                    seconds=math.inf,
                )
        except (OperationalError, InterfaceError) as error:
            log.warning("the database does not answer: %s", first_line(error))
            time.sleep(SECONDS_AFTER_ERROR)
        except Exception:
            log.exception("a search has failed")
            time.sleep(SECONDS_AFTER_ERROR)
        time.sleep(CHECK_SECONDS)
    connections.close_all()
