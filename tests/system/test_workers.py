"""A worker process by itself."""

import os
import subprocess
import sys
from pathlib import Path

from poisonadmin.embedded.stack import Services
from tests.system.installation import PROJECT
from workers.spark_worker import EXIT_NO_SPARK

PATIENCE_SECONDS = 120


def test_a_worker_whose_spark_does_not_start_ends_instead_of_idling(services: Services, tmp_path: Path) -> None:
    nowhere = {"JAVA_HOME": str(tmp_path), "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
    worker = [sys.executable, "-m", "celery", "-A", "workers.celery_app", "worker", "--pool=solo"]
    ended = subprocess.run(
        [*worker, "-Q", "nobody-sends-here", "-n", "spark-batch@test"],
        cwd=PROJECT,
        env=dict(os.environ) | nowhere,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == EXIT_NO_SPARK, ended.stderr[-3000:]
    assert "Spark does not start" in ended.stderr + ended.stdout
