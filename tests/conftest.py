"""Fixtures of the whole suite."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from poisonadmin.embedded.stack import Services
from tests import services_plugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytest_plugins = [
    "tests.fixtures.api", "tests.fixtures.database", "tests.fixtures.delivery", "tests.fixtures.inbox",
    "tests.fixtures.pages",
]  # fmt: skip

# Only sandboxes import the handlers: one of them kills what imports it. The settings for mypy change the environment.
collect_ignore = ["handlers", "typing_settings.py"]

# `pytest --hypothesis-profile long …`: not in `make test`.
hypothesis.settings.register_profile("long", max_examples=2000, stateful_step_count=60)

# Playwright keeps an event loop running in this thread from the first browser test on, in which no other test could run
# one; and an installation under test keeps two JVMs up. So these come last, in this order.
LAST = ("tests/conformance", "tests/whole_system", "tests/browser")
# `pytest -n 2` runs these in one process, each a while long and mostly waiting, and everything else in the other.
WAITING = ("tests/poisonguard", "tests/embedded", *LAST)


class TwoSides(LoadScopeScheduling):
    """Two processes, each with its own PostgreSQL, and one of them alone with the installation and the browser."""

    def _split_scope(self, nodeid: str) -> str:
        waits = nodeid.startswith(tuple(f"{folder}/" for folder in WAITING)) or "_system.py::" in nodeid
        return "waiting" if waits else "busy"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Divide the tests between two processes so that both take about as long."""
    return TwoSides(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of the running system behind the others, and those in a browser behind them."""

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(config.rootpath).as_posix()
        return next((index for index, folder in enumerate(LAST, start=1) if path.startswith(f"{folder}/")), 0)

    items.sort(key=place)


@pytest.fixture(scope="session")
def services() -> Services:
    """Return the running PostgreSQL and Valkey."""
    assert services_plugin.services is not None
    return services_plugin.services


@pytest.fixture(scope="session")
def test_database_url(services: Services, django_db_setup: None) -> str:
    """Return the address of the database that the tests use, for processes other than this one."""
    from django.db import connection

    return f"{services.database_url.rpartition('/')[0]}/{connection.settings_dict['NAME']}"


@pytest.fixture(scope="session")
def spark(test_database_url: str) -> Iterator["SparkSession"]:
    """Yield the one SparkSession of the run, set up as the workers set it up; its tasks use the tests' database."""
    from workers.spark.session import start_session

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DATABASE_URL", test_database_url)
        session = start_session("tests", master="local[4,4]")
    yield session
    session.stop()
