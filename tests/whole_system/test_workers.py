"""A worker process by itself."""

import os
import subprocess
import sys
from pathlib import Path

from django.db import connection

from tests.services import Services
from tests.whole_system.installation import PROJECT
from workers.spark_worker import EXIT_NO_SPARK

PATIENCE_SECONDS = 120


WORKER = (sys.executable, "-m", "celery", "-A", "workers.celery_app", "worker", "-Q", "nobody-sends-here")


def test_a_worker_does_not_start_on_tables_of_another_version(services: Services) -> None:
    # This database of the test services was never migrated: the tests use one of their own.
    there = {"DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
    ended = _run("-n", "io@test", environment=there)
    assert ended.returncode == 1
    assert "run `manage.py migrate`" in ended.stderr


def test_a_worker_whose_spark_does_not_start_ends_instead_of_idling(
    services: Services, transactional_db: None, tmp_path: Path
) -> None:
    nowhere = {"JAVA_HOME": str(tmp_path), "DATABASE_URL": _tests_database(), "REDIS_URL": services.redis_url}
    ended = _run("-n", "spark-batch@test", "--pool=solo", environment=nowhere)
    assert ended.returncode == EXIT_NO_SPARK, ended.stderr[-3000:]
    assert "Spark does not start" in ended.stderr


def _run(*options: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*WORKER, *options],
        cwd=PROJECT,
        env=dict(os.environ) | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def _tests_database() -> str:
    """Return the address of the migrated database that Django's tests use."""
    here = connection.settings_dict
    return f"postgresql://{here['USER']}:{here['PASSWORD']}@{here['HOST']}:{here['PORT']}/{here['NAME']}"
