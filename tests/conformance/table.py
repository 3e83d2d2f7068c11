"""Writes the table of conformance after a run of the tests: `python -m tests.conformance.table > PAGE`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.ids import IDS, SYSTEMS, system_of
from tests.conformance.named import ROOT, marked_by_id, proof_of
from tests.conformance.recorder import KEPT, function_of

KEPT_FILE = ROOT / ".pytest_cache" / "v" / Path(KEPT)
NOT_RUN = "not run"
HEAD = "| id | what it says | proved by | tests | result |"
INTRODUCTION = """\
# Conformance

`python -m tests.conformance.table > docs/develop/conformance.md` writes this page from the last run of the tests.

PoisonAdmin reproduces statements and test vectors of five messaging systems.
The tables list them, with the tests of each and the results of these tests.

- An id with a number is a statement.
- An id with a letter is a test vector.
- R1 to R19 are our own rules, where the systems leave room or contradict each other.

The test suite fails when an id has no test.

*Proved by* says how, and with which kind of failure:

- *pure rule*: the function that decides is called; nothing runs.
- *database*: the commands run on PostgreSQL; the test writes the results of deliveries.
- *in process*: the API, claims, real deliveries and settling run in one process, without Celery and Spark.
  Most of these tests move due times instead of waiting, and some have one message wait for the test.
- *whole system*: every process runs, nothing is held back, and the waits are waited out.
- *real broker*, *guard and server*: with the broker, or with consumers that run the guard.
"""


def page(results: Mapping[str, tuple[list[str], str]]) -> str:
    """Return the page, with `results` as the recorder keeps them: node id -> its ids, how it ended."""
    tests = marked_by_id()
    parts = [INTRODUCTION]
    for system, title in SYSTEMS.items():
        parts += [f"## {title}\n", HEAD, "| --- | --- | --- | --- | --- |"]
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
    links = "<br>".join(f"[{test.partition('::')[2]}](../../{test.partition('::')[0]})" for test in tests)
    proofs = "<br>".join(sorted({proof_of(test) for test in tests}))
    return f"| {one} | {IDS[one]} | {proofs} | {links} | {worst} |"


if __name__ == "__main__":
    kept = json.loads(KEPT_FILE.read_text()) if KEPT_FILE.exists() else {}
    sys.stdout.write(page(kept))
