"""Fixtures of the whole suite."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from poisonadmin.embedded.stack import Services
from tests import services_plugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def services() -> Services:
    """Return the running PostgreSQL and Valkey."""
    assert services_plugin.services is not None
    return services_plugin.services


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Yield the one SparkSession of the run, set up as the workers set it up."""
    from workers.spark.session import start_session

    session = start_session("tests", master="local[4,4]")
    yield session
    session.stop()
