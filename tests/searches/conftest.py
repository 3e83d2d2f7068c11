"""What searches are carried out with."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from poisonadmin.search.deep.commands.searching import Searching
from workers.spark.jobs.search import find


@pytest.fixture
def going(
    transactional_db: None, spark: SparkSession, test_database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Searching:
    """Return what searches are carried out with."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)
    return Searching(partial(find, spark), lambda path: str(tmp_path / path))
