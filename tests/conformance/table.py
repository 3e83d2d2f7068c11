"""Writes the table of conformance: `python -m tests.conformance.table > docs/conformance.md`, after the tests ran."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.ids import IDS, SYSTEMS, system_of
from tests.conformance.named import ROOT, marked_by_id
from tests.conformance.recorder import KEPT, function_of

KEPT_FILE = ROOT / ".pytest_cache" / "v" / Path(KEPT)
NOT_RUN = "not run"
INTRODUCTION = """\
# Conformance

`python -m tests.conformance.table > docs/conformance.md` writes this page from the last run of the tests.

PoisonAdmin reproduces statements and test vectors of five messaging systems.
The tables list them, with the tests of each and the results of these tests.

- An id with a number is a statement.
- An id with a letter is a test vector.
- R1 to R10 are our own rules, where the systems leave room or contradict each other.

The test suite fails when an id has no test.

Tests in `tests/conformance` run the API, claims, deliveries and settling in one process, without Celery and Spark.
Most of them move due times in the database instead of waiting.
Tests in `tests/whole_system` run every process and wait in real time.
"""


def page(results: Mapping[str, tuple[list[str], str]]) -> str:
    """Return the page, with `results` as the recorder keeps them: node id -> its ids, how it ended."""
    tests = marked_by_id()
    parts = [INTRODUCTION]
    for system, title in SYSTEMS.items():
        parts += [f"## {title}\n", "| id | what it says | tests | result |", "| --- | --- | --- | --- |"]
        parts += [_row(one, tests.get(one, []), results) for one in IDS if system_of(one) == system]
        parts.append("")
    return "\n".join(parts)


def result_of(one: str, test: str, results: Mapping[str, tuple[list[str], str]]) -> str:
    """Return how a test function ended for an id: the worst of its parameters that name the id."""
    ends = {end for node, (ids, end) in results.items() if function_of(node) == test and one in ids}
    return "failed" if "failed" in ends else NOT_RUN if ends != {"passed"} else "passed"


def _row(one: str, tests: list[str], results: Mapping[str, tuple[list[str], str]]) -> str:
    ends = {result_of(one, test, results) for test in tests} or {NOT_RUN}
    worst = next(end for end in ("failed", NOT_RUN, "passed") if end in ends)
    links = "<br>".join(f"[{test.partition('::')[2]}](../{test.partition('::')[0]})" for test in tests)
    return f"| {one} | {IDS[one]} | {links} | {worst} |"


if __name__ == "__main__":
    kept = json.loads(KEPT_FILE.read_text()) if KEPT_FILE.exists() else {}
    sys.stdout.write(page(kept))
