"""Logs as JSON: a line is an object, whoever wrote it, and has the ids of what it was written in."""

import json
import os
import subprocess
import sys

PROGRAM = """
import logging, django, structlog
django.setup()
from celery.signals import task_prerun
from workers.celery_app import app
from workers import tasks
task_prerun.send(sender=tasks.count_tick, task_id="1")
structlog.contextvars.bind_contextvars(run_id=7)
logging.getLogger("celery.app.trace").warning("a line\\nof %s", "celery", extra={"place": "here"})
structlog.get_logger("poisonadmin.x").error("one of ours", messages=3)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("y").exception("broken")
"""


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "DJANGO_SETTINGS_MODULE": "poisonadmin.settings", **environment}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, check=False)


def test_each_line_is_an_object_with_its_ids() -> None:
    done = run(POISONADMIN_LOG_FORMAT="json")
    theirs, ours, broken = [json.loads(line) for line in done.stderr.splitlines()]
    assert theirs.pop("timestamp") < ours.pop("timestamp")
    assert theirs == {
        "event": "a line\nof celery",
        "level": "warning",
        "logger": "celery.app.trace",
        "place": "here",
        "run_id": 7,
        "tick": "count_tick",
    }
    assert ours == {
        "event": "one of ours",
        "level": "error",
        "logger": "poisonadmin.x",
        "messages": 3,
        "run_id": 7,
        "tick": "count_tick",
    }
    assert "ZeroDivisionError" in broken["exception"]


def test_another_format_is_refused_by_its_name() -> None:
    assert "POISONADMIN_LOG_FORMAT must be one of plain, json" in run(POISONADMIN_LOG_FORMAT="xml").stderr


def test_by_default_a_line_is_a_line() -> None:
    assert "WARNING celery.app.trace a line\nof celery\n" in run().stderr
