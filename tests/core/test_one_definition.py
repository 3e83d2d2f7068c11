"""A class is defined once, and so is an error code."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("poisonadmin", "workers", "poisonguard", "poisonctl")
# Django gives these names: to what `manage.py` finds in a module, and to a model's settings inside its class.
DJANGOS = {"Command", "Meta"}
BASE = "PoisonAdminError"

Class = tuple[Path, ast.ClassDef]


def classes(root: Path) -> list[Class]:
    """Return (path below `root`, class) of all that are defined in its packages, those inside others included."""
    return [
        (file.relative_to(root), node)
        for folder in ROOTS
        for file in sorted((root / folder).rglob("*.py"))
        if "migrations" not in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name not in DJANGOS
    ]


def defined_twice(root: Path) -> dict[str, list[str]]:
    """Return the names that more than one class has, with the modules."""
    return _repeated((node.name, str(path)) for path, node in classes(root))


def codes_declared_twice(root: Path) -> dict[str, list[str]]:
    """Return the codes that more than one error class declares itself; one that inherits its code declares none."""
    found = classes(root)
    errors = {BASE}
    while more := {node.name for _, node in found if _bases(node) & errors} - errors:
        errors |= more
    return _repeated((code, node.name) for _, node in found if node.name in errors for code in _codes(node))


def _repeated(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def _codes(node: ast.ClassDef) -> list[str]:
    declared = (re.fullmatch(r"code(?:: \w+)? = '(.+)'", ast.unparse(statement)) for statement in node.body)
    return [match[1] for match in declared if match]


def test_no_two_classes_have_one_name() -> None:
    assert defined_twice(ROOT) == {}


def test_no_two_error_classes_declare_one_code() -> None:
    assert codes_declared_twice(ROOT) == {}


@pytest.mark.parametrize(
    ("first", "second", "repeated"),
    [
        ("class Hop: ...", "class Hop: ...", ["Hop"]),
        ("class Hop: ...", "class Model:\n    class Hop: ...", ["Hop"]),
        ("class Hop: ...", "class Step: ...", []),
        ("class Command: ...", "class Command:\n    class Meta: ...", []),
    ],
)
def test_a_name_that_is_defined_twice_is_found(tmp_path: Path, first: str, second: str, repeated: list[str]) -> None:
    write(tmp_path, first, second)
    assert list(defined_twice(tmp_path)) == repeated


@pytest.mark.parametrize(
    ("first", "second", "repeated"),
    [
        ("class A(PoisonAdminError):\n    code = 'gone'", "class B(PoisonAdminError):\n    code = 'gone'", ["gone"]),
        ("class A(PoisonAdminError):\n    code = 'gone'", "class B(a.A):\n    code: str = 'gone'", ["gone"]),
        ("class A(PoisonAdminError):\n    code = 'gone'", "class B(A):\n    status = 404", []),
        ("class A(PoisonAdminError):\n    code = 'gone'", "class Row:\n    code = 'gone'", []),
        ("class A(PoisonAdminError):\n    code = 'gone'", "class B(PoisonAdminError):\n    code = 'lost'", []),
    ],
)
def test_a_code_that_is_declared_twice_is_found(tmp_path: Path, first: str, second: str, repeated: list[str]) -> None:
    write(tmp_path, first, second)
    assert list(codes_declared_twice(tmp_path)) == repeated


def write(root: Path, first: str, second: str) -> None:
    """Make a tree of two modules of different packages."""
    for folder, source in (("poisonadmin/messages", first), ("workers/delivery", second)):
        (root / folder).mkdir(parents=True)
        (root / folder / "module.py").write_text(source + "\n")
