"""Fixtures of the whole suite."""

import contextlib
import gc
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests import services_plugin
from tests.services import Services

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytest_plugins = [
    "tests.fixtures.database",
    "tests.fixtures.delivery",
    "tests.fixtures.api",
    "tests.fixtures.inbox",
    "tests.fixtures.pages",
    "tests.fixtures.class_archive",
]

# Only sandboxes import the handlers: one of them kills what imports it. The settings for mypy change the environment.
collect_ignore = ["handlers", "typing_settings.py"]

# Other processes compute beside a property: its time says nothing about it.
UNTIMED = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("untimed", UNTIMED)
hypothesis.settings.load_profile("untimed")
# `pytest --hypothesis-profile long …`: not in `make test`.
hypothesis.settings.register_profile("long", UNTIMED, max_examples=2000, stateful_step_count=60)

# `pytest -n 4` gives each process one group of tests after the other, these first, so that all are busy to the end:
# those that wait for other processes beside those that compute.
LONGEST_FIRST = (
    *("whole_system", "spark", "tests/web/test_openapi.py", "conformance", "browser", "poisonguard", "faults"),
    *("tests/embedded/test_supervisor.py", "tests/embedded/test_class_archive.py", "tests/embedded/test_stack.py"),
    *("tests/messages/test_state_machine.py", "tests/embedded/test_spark.py", "tests/web/test_openapi_sequences.py"),
    *("tests/web/test_page_access.py", "live web"),
)
# These share an installation, a redelivery, a browser or a web process; other tests share what their file does.
BY_FOLDER = ("whole_system", "conformance", "browser", "poisonguard", "faults", "brokers")
# One SparkSession is enough for these; another process would start another JVM.
WITH_SPARK = (
    *("alike_groups/test_job.py", "alike_groups/test_killed.py", "archive/test_erasing.py", "archive/test_pages.py"),
    *("archive/test_operation_results.py", "archive/test_regrouping.py", "archive/test_restoring.py"),
    *("archive/test_runs.py", "comparisons/test_archived.py", "comparisons/test_comparing.py", "intake/test_killed.py"),
    *("intake/test_business_keys.py", "masking/test_far_readers.py", "messages/test_regrouping.py"),
    *("reports/test_files.py", "reports/test_pivot.py"),
    *("reports/test_runs.py", "rules/test_dry_runs.py", "searches/test_scan.py", "searches/test_searching.py"),
    *("sources/test_directory.py", "sources/test_pieces.py", "sources/test_reading_files.py"),
    *("sources/test_source_roots.py", "tables/test_tables.py"),
)
# So is one web process for these.
WITH_WEB = ("web/test_strangers.py", "web/test_upload.py", "messages/test_long_payloads.py")
# So is one installation for these tests of brokers.
WITH_INSTALLATION = ("test_artemis_side_by_side.py", "test_system.py")

COLLECTS_ALL = "collects all tests"


class ByGroup(LoadScopeScheduling):
    """Gives a group's tests to one process: they share a database, a web process, a browser, an installation."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return what a test is run together with.

    >>> group_of("tests/rules/test_dry_runs.py::test_one"), group_of("tests/whole_system/test_roles.py::test_one")
    ('spark', 'whole_system')
    >>> group_of("tests/web/test_login.py::test_one")
    'tests/web/test_login.py'
    >>> group_of("poisonadmin/core/domain/globs.py::poisonadmin.core.domain.globs.matches")
    'doctests'
    """
    file = nodeid.split("::", maxsplit=1)[0]
    first, *rest = file.split("/")
    if first != "tests" or len(rest) < 2:
        return "doctests"
    folder, inside = rest[0], "/".join(rest)
    if folder == "brokers" and rest[1] in WITH_INSTALLATION:
        return "brokers with an installation"
    if inside in WITH_SPARK:
        return "spark"
    if inside in WITH_WEB:
        return "live web"
    return folder if folder in BY_FOLDER else file


def pytest_configure_node(node: WorkerController) -> None:
    """Tell each process of a run whether it collects all tests."""
    node.workerinput[COLLECTS_ALL] = node.config.args_source is pytest.Config.ArgsSource.TESTPATHS


def pytest_collection(session: pytest.Session) -> None:
    """Import the test modules, in each process of a whole run from another one on.

    To compile them takes as long as all else that collecting is. So each process compiles its share, and finds what the
    others have compiled meanwhile. What is collected stays: to search it for garbage would take a fifth of the time.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", {})
    if not worker.get(COLLECTS_ALL):
        return
    root = session.config.rootpath
    files = sorted(path.relative_to(root) for path in root.glob("tests/**/test_*.py") if "brokers" not in path.parts)
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in [*files[first:], *files[:first]]:
        with contextlib.suppress(Exception):  # collecting says what is wrong
            importlib.import_module(".".join(path.with_suffix("").parts))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Divide the tests between the processes by group, in the order in which they are collected."""
    config.option.loadscopereorder = False
    return ByGroup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put each group's tests together: what a package shares is made once, and ends with it."""
    groups = {group_of(item.nodeid): index for index, item in reversed([*enumerate(items, start=len(LONGEST_FIRST))])}
    groups |= {group: index for index, group in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: groups[group_of(item.nodeid)])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what is collected out of each search for garbage."""
    gc.freeze()
    gc.enable()


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
