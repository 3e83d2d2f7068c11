"""The page about the architecture is what the import contracts say, and its way leads through files that exist."""

import ast
from itertools import pairwise

import pytest

from tests.docs.architecture import COMMANDS, HOPS, PACKAGES, ROLE_TEXTS, ROLES, ROOT, Hop, layers, mermaid, page


def test_the_page_is_what_the_contracts_print() -> None:
    assert (ROOT / "docs" / "develop" / "architecture.md").read_text(encoding="utf-8") == page(), (
        "run: python -m tests.docs.architecture > docs/develop/architecture.md"
    )


def test_every_package_of_the_project_is_in_the_picture() -> None:
    named = {name for layer in layers(PACKAGES) for name in layer}
    here = {path.stem for path in (ROOT / "poisonadmin").iterdir() if path.stem.strip("_") not in ("init", "pycache")}
    assert named == here
    assert all(name in mermaid() for name in named)


def test_every_order_of_the_commands_is_an_arrow_in_the_picture() -> None:
    order = [layer[0].partition(":")[0] for layer in layers(COMMANDS) if layer != ["core"]]
    arrows = [line.strip() for line in mermaid().splitlines() if "-->" in line]
    for above, below in pairwise(order):
        assert any(line.startswith(above) and f"--> {below}" in line for line in arrows), (above, below)


def test_every_role_is_described() -> None:
    assert {role for layer in layers(ROLES) for role in layer} == set(ROLE_TEXTS)


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
