"""Which test names which id: `@pytest.mark.conformance("WAS-3", "WAS-b")`, read from the source without running it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.conformance.recorder import MARK
from tests.conformance.vectors import VECTORS, WHOLE_SYSTEM_VECTORS

ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/conformance/test_vectors.py"
VECTORS_FAIL_BY = "HTTP status"
PURE = "pure rule"
# How the tests of a folder prove something; of others, their imports tell.
WAYS = {
    "tests/whole_system/": "whole system",
    "tests/conformance/": "in process",
    "tests/brokers/": "real broker",
    "tests/poisonguard/": "guard and server",
    "poisonguard/": "guard and server",
}
_NEEDS_DATABASE = re.compile(
    r"^(from|import) (django|tests\.fixtures|poisonadmin\.\S+\.(commands|queries))", re.MULTILINE
)
WHOLE_SYSTEM = "tests/whole_system/test_conformance.py::test_the_whole_system_takes_the_vectors_course"


def marked_by_id() -> dict[str, list[str]]:
    """Return the tests, as `path::function`, that name each id; those of the table of vectors among them."""
    found: dict[str, set[str]] = {}
    for folder in ("tests", "poisonguard"):
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            name = path.relative_to(ROOT).as_posix()
            for function, ids in _marked(path):
                for one in ids:
                    found.setdefault(one, set()).add(f"{name}::{function}")
    for vector in VECTORS:
        for one in vector.ids:
            found.setdefault(one, set()).update(f"{TABLE}::{function}" for function in _functions(ROOT / TABLE))
    for vector in WHOLE_SYSTEM_VECTORS:
        for one in vector.ids:
            found.setdefault(one, set()).add(WHOLE_SYSTEM)
    return {one: sorted(tests) for one, tests in found.items()}


def proof_of(test: str) -> str:
    """Return how a test, `path::function`, proves something, and with which kind of failure where its mark says so.

    >>> proof_of("tests/conformance/test_sap.py::test_sap_i_an_exception_accuses_nobody")
    'in process: exception'
    """
    path, _, function = test.partition("::")
    way = _way(path, function)
    by = VECTORS_FAIL_BY if path in (TABLE, WHOLE_SYSTEM.partition("::")[0]) else _kinds(path).get(function)
    return way if by is None or way == PURE else f"{way}: {by}"


def _way(path: str, function: str) -> str:
    for folder, way in WAYS.items():
        if path.startswith(folder):
            return PURE if folder == "tests/conformance/" and "_rules" in path + function else way
    source = (ROOT / path).read_text()
    return "database" if _NEEDS_DATABASE.search(source) else PURE


@cache
def _kinds(path: str) -> dict[str, str]:
    """Return the functions of a file whose mark names a kind of failure, and the kind."""
    found = {}
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef):
            for one in (one for decorator in node.decorator_list for one in ast.walk(decorator)):
                if isinstance(one, ast.keyword) and one.arg == "by" and isinstance(one.value, ast.Constant):
                    found[node.name] = str(one.value.value)
    return found


def _functions(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    return [one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]


def _marked(path: Path) -> Iterator[tuple[str, list[str]]]:
    source = path.read_text()
    if MARK not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            ids = [one for decorator in node.decorator_list for one in _ids(decorator)]
            if ids:
                yield node.name, ids


def _ids(decorator: ast.expr) -> list[str]:
    """Return the ids in a decorator, also in the marks of single parameters."""
    return [
        argument.value
        for call in ast.walk(decorator)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == MARK
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
