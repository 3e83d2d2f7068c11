"""The page about the architecture is what the import contracts say, and its way leads through files that exist."""

import ast
from pathlib import Path

import pytest

from tests.docs.architecture import HOPS, PACKAGES, ROLE_TEXTS, ROLES, ROOT, Hop, layers, mermaid, page, tiers


def modules_in(folder: Path) -> list[Path]:
    """Return the modules and packages that stand in a folder."""
    found = [*folder.glob("*.py"), *(path.parent for path in folder.glob("*/__init__.py"))]
    return [path for path in found if path.stem != "__init__"]


def test_the_page_is_what_the_contracts_print() -> None:
    assert (ROOT / "docs" / "develop" / "architecture.md").read_text(encoding="utf-8") == page(), (
        "run: python -m tests.docs.architecture > docs/develop/architecture.md"
    )


def test_every_package_of_the_project_is_in_the_picture() -> None:
    named = {name for layer in layers(PACKAGES) for name in layer}
    here = {path.stem for path in modules_in(ROOT / "poisonadmin")}
    assert named == here
    assert all(name in mermaid() for name in named)


def test_there_are_six_tiers() -> None:
    assert len(tiers()) == 6


def test_every_module_of_a_feature_has_a_role() -> None:
    known = {role for layer in layers(ROLES) for role in layer}
    features = [ROOT / "poisonadmin" / name for each in tiers().values() for layer in each for name in layer]
    without_roles = {"embedded", "store"}
    astray = [
        str(path.relative_to(ROOT))
        for feature in features
        if feature.name not in without_roles
        for path in modules_in(feature)
        if path.stem not in known
    ]
    assert astray == []


def test_every_role_is_described() -> None:
    parts = {"alike", "deep", "operations", "restart_jobs", "sign_offs", "views"}
    assert {role for layer in layers(ROLES) for role in layer} == {*ROLE_TEXTS, *parts}


def test_a_message_takes_twelve_hops_at_most() -> None:
    assert len(HOPS) <= 12


@pytest.mark.parametrize("hop", HOPS, ids=lambda hop: hop.name)
def test_a_hop_names_a_file_and_what_it_defines(hop: Hop) -> None:
    tree: ast.AST = ast.parse((ROOT / hop.file).read_text(encoding="utf-8"))
    for name in hop.name.split("."):
        [tree] = [
            node
            for node in ast.iter_child_nodes(tree)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        ]
