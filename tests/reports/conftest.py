"""The batch worker's part in reports: it reads waves with Spark, a few messages each, into a home of the test's."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from pyspark.sql import SparkSession

from poisonadmin.core.domain.access import SYSTEM, Principal
from poisonadmin.core.domain.exports import FileFormat
from poisonadmin.reports.commands import carry_out as reports
from poisonadmin.reports.commands import files
from poisonadmin.reports.commands.carry_out import Collect
from poisonadmin.reports.commands.requests import request_report
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.reports.queries.reports import ReportFile, ReportRow, get_report
from poisonadmin.runs.commands.engine import carry_out
from workers.spark.jobs.report import collect

Make = Callable[..., ReportRow]


def report_due(read: Collect, *, worker: str = "tests", **how: Any) -> None:
    """Give the requested reports their turns."""
    carry_out(reports.work(read), worker=worker, **how)


def file_of(report: ReportRow) -> ReportFile:
    """Return the file of a report, which has succeeded."""
    assert (report.state, report.error) == ("succeeded", None)
    assert report.result is not None
    return report.result


def directory_of(report_id: int) -> Path:
    """Return the directory of a report in the archive, which is one of this machine in tests."""
    return Path(django_settings.ARCHIVE) / "reports" / str(report_id)


def stored(report_id: int, written_as: FileFormat) -> Path:
    """Return where a report's file is."""
    return directory_of(report_id) / files.name_of(written_as)


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
    monkeypatch.setattr(reports, "RANGE_MESSAGES", 3)
    monkeypatch.setattr(reports, "RANGES_A_WAVE", 2)
    return partial(collect, spark)


@pytest.fixture
def make(read: Collect) -> Make:
    """Return what has a report made, and returns it as it is then."""

    def made(kind: str, *, principal: Principal = SYSTEM, **wishes: Any) -> ReportRow:
        report_id = request_report(asked_report(kind, **wishes), principal=principal)
        report_due(read, seconds=300)
        return get_report(report_id, principal=principal)

    return made
