"""A plugin that keeps, in pytest's cache, how the tests that name ids of the conformance suite ended last.

Loaded by `-p tests.conformance.recorder` (pyproject.toml); `python -m tests.conformance.table` reads what it keeps.
"""

from collections.abc import Sequence

import pytest

KEPT = "conformance/results"
MARK = "conformance"

Ended = dict[str, tuple[list[str], str]]

_ended: Ended = {}


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Give each test the ids that its marks name, so that its report brings them, also from another process."""
    for item in items:
        ids = [one for mark in item.iter_markers(MARK) for one in mark.args]
        if ids:
            item.user_properties.append((MARK, sorted(set(ids))))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how a test ended: by its call, or by the first other phase that fails."""
    ids = dict(report.user_properties).get(MARK)
    if isinstance(ids, list) and (report.when == "call" or report.failed):
        former = _ended.get(report.nodeid)
        if former is None or former[1] == "passed":
            _ended[report.nodeid] = (ids, report.outcome)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Merge this run into what is kept; a function that ran replaces all that it left before."""
    cache = session.config.cache
    if not _ended or cache is None or hasattr(session.config, "workerinput"):
        return
    ran = {function_of(node_id) for node_id in _ended}
    kept: Ended = {name: end for name, end in cache.get(KEPT, {}).items() if function_of(name) not in ran}
    cache.set(KEPT, kept | _ended)


def function_of(node_id: str) -> str:
    """Return the file and the function of a test, without its parameters.

    >>> function_of("tests/a.py::test_b[c::d]")
    'tests/a.py::test_b'
    """
    return node_id.partition("[")[0]
