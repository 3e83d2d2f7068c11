"""Which test names which id: `@pytest.mark.conformance("WAS-3", "WAS-b")`, read from the source without running it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.recorder import MARK
from tests.conformance.vectors import VECTORS, WHOLE_SYSTEM_VECTORS

ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/conformance/test_vectors.py"
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
