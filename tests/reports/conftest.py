"""The batch worker's part in reports: it reads waves with Spark, a few messages each, into a home of the test's."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from pyspark.sql import SparkSession

from poisonadmin.core.domain.access import SYSTEM, Principal
from poisonadmin.reports.commands import runs
from poisonadmin.reports.commands.requests import request_report
from poisonadmin.reports.commands.runs import Collect, report_due
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.store.models.report import RequestedReport
from workers.spark.jobs.report import collect

Make = Callable[..., RequestedReport]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home, in a directory of the test's."""
    monkeypatch.setattr(django_settings, "HOME", tmp_path)
    monkeypatch.setattr(django_settings, "ARCHIVE", str(tmp_path / "archive"))
    return tmp_path


@pytest.fixture
def read(
    transactional_db: None, home: Path, spark: SparkSession, test_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Collect:
    """Return what the batch worker reads waves with, on small ranges."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)
    monkeypatch.setattr(runs, "RANGE_MESSAGES", 3)
    monkeypatch.setattr(runs, "RANGES_A_WAVE", 2)
    return partial(collect, spark)


@pytest.fixture
def make(read: Collect) -> Make:
    """Return what has a report made, and returns it as it is then."""

    def made(kind: str, *, principal: Principal = SYSTEM, **wishes: Any) -> RequestedReport:
        report_id = request_report(asked_report(kind, **wishes), principal=principal)
        report_due(read, worker="tests", seconds=300)
        return RequestedReport.objects.get(id=report_id)

    return made
