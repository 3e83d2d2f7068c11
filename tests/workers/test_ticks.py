"""A tick that does several things does each of them, whatever becomes of the others."""

import logging

import pytest
from django.db import OperationalError

from workers.celery_app import MODULES, app, do_each


def test_each_work_of_a_tick_is_done_in_turn_although_another_one_fails() -> None:
    done: list[str] = []

    def fail() -> None:
        done.append("fail")
        raise ValueError("the second work")

    with pytest.raises(ValueError, match="the second work"):
        do_each(lambda: done.append("first"), fail, lambda: done.append("third"))
    assert done == ["first", "fail", "third"]


def test_every_tick_names_a_task_of_the_worker_that_it_goes_to() -> None:
    from workers import spark_tasks, tasks  # noqa: F401  (they register their tasks)

    for tick in app.conf.beat_schedule.values():
        assert tick["task"] in app.tasks
        assert tick["task"].startswith(MODULES[tick["options"]["queue"]] + ".")


def test_a_tick_that_finds_the_database_away_says_so_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    trace = logging.getLogger("celery.app.trace")
    for error in (OperationalError("connection refused\n\tIs it there?"), ValueError("a mistake of ours")):
        try:
            raise error
        except Exception:
            trace.exception("Task %s raised unexpected", "workers.tasks.message_tick")
    away, mistake = caplog.records
    assert (away.getMessage(), away.exc_info) == ("the database does not answer: connection refused", None)
    assert mistake.exc_info is not None
