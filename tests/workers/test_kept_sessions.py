"""A worker keeps its database session from task to task, and gives up one that broke."""

import pytest
from celery.fixups.django import DjangoWorkerFixup
from celery.signals import task_prerun
from django.db import OperationalError, connection

from workers.celery_app import app

pytestmark = pytest.mark.django_db(transaction=True)


def between_tasks() -> None:
    """Do what Celery does after a task and before the next one."""
    fixup = DjangoWorkerFixup(app)
    task = next(iter(app.tasks.values()))
    fixup.on_task_postrun(task)
    fixup.on_task_prerun(task)
    task_prerun.send(sender=task, task_id="the next")


def session() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_the_next_task_has_the_session_of_the_last_one() -> None:
    connection.close()  # an earlier test's may have reached CONN_MAX_AGE
    first = session()
    between_tasks()
    assert session() == first


def test_a_session_that_broke_is_given_up_before_the_next_task() -> None:
    first = session()
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    between_tasks()
    assert session() != first
