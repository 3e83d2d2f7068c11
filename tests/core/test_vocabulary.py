"""Code, pages and documents use the field's words; the words that were given up do not come back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.vocabulary import (
    OLD_NAMES,
    OWN_MEANING,
    ROOTS,
    TO_DO,
    WHOLE_NAMES,
    clauses,
    documents,
    old_names,
    old_phrases,
    private_ids,
    private_words,
    prose,
    shown_by_module,
    shown_by_template,
)

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted(ROOT.glob("templates/**/*.html"))
MODULES = sorted([*ROOT.glob("poisonadmin/*/pages/**/*.py"), *ROOT.glob("poisonadmin/*/pages.py")])
DOCUMENTS = documents(ROOT)
PACKAGES = [
    path for root in ("poisonadmin", "workers", "poisonguard", "poisonctl") for path in (ROOT / root).rglob("*.py")
]
CODE = sorted(
    path
    for path in PACKAGES
    if "migrations" not in path.parts and not str(path.relative_to(ROOT)).startswith(TO_DO or ("-",))
)


def old_phrases_in(paths: list[Path], shown: Callable[[str], str]) -> dict[str, list[str]]:
    """Return the old phrases in what is shown of each file that has some."""
    found = {path: old_phrases(shown(path.read_text(encoding="utf-8"))) for path in paths}
    return {str(path.relative_to(ROOT)): phrases for path, phrases in found.items() if phrases}


def test_no_module_and_no_class_has_an_old_name() -> None:
    assert old_names(ROOT) == []


def found_in(paths: list[Path], find: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """Return what is found in each file that has some."""
    found = {str(path.relative_to(ROOT)): find(path.read_text(encoding="utf-8")) for path in paths}
    return {path: names for path, names in found.items() if names}


def test_no_identifier_and_no_column_has_a_private_word() -> None:
    assert found_in(CODE, private_words) == {}


def test_no_id_in_a_template_has_a_private_word() -> None:
    assert found_in(TEMPLATES, private_ids) == {}


def test_no_docstring_begins_with_a_clause() -> None:
    assert found_in(CODE, clauses) == {}


def test_a_template_says_no_old_word() -> None:
    assert old_phrases_in(TEMPLATES, shown_by_template) == {}


def test_a_module_of_pages_says_no_old_word() -> None:
    assert old_phrases_in(MODULES, shown_by_module) == {}


def test_a_document_says_no_old_word() -> None:
    assert old_phrases_in(DOCUMENTS, prose) == {}


@pytest.mark.parametrize("word", OLD_NAMES)
def test_an_old_word_is_found_in_the_name_of_a_module_and_of_a_class(tmp_path: Path, word: str) -> None:
    before = "" if word in WHOLE_NAMES else "broker "
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / f"{(before + word).replace(' ', '_')}.py").write_text("")
    (tmp_path / "workers" / "fine.py").write_text(f"class {(before + word).title().replace(' ', '')}:\n    pass\n")
    found = [one for one in old_names(tmp_path) if f"says {word!r}" in one]
    assert len(found) == 2
    assert any(one.startswith("workers/fine.py: ") for one in found)


@pytest.mark.parametrize("word", OWN_MEANING)
def test_a_word_with_a_meaning_of_its_own_is_fine_in_its_place_alone(tmp_path: Path, word: str) -> None:
    for folder in (OWN_MEANING[word], "poisonadmin/messages"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"{word}.py").write_text("")
    assert [one.partition(":")[0] for one in old_names(tmp_path)] == [f"poisonadmin/messages/{word}.py"]


def test_every_part_of_the_project_is_searched() -> None:
    assert all((ROOT / folder).is_dir() for folder in ROOTS)


@pytest.mark.parametrize(
    ("shown", "phrases"),
    [
        ("This page follows by itself.", ["follows by itself"]),
        ("The next look failed: the broker is in trouble.", ["look", "trouble"]),
        ("Files that look like text; what looks wrong; groups that look alike", []),
        ("Its consumer’s word is awaited; unanswered", ["consumer’s word", "unanswered"]),
        ("Attempt 0, brought along", ["brought along"]),
        ("An overlook is a place, and a bookmark a position", []),
    ],
)
def test_an_old_phrase_is_found_and_an_everyday_word_is_not(shown: str, phrases: list[str]) -> None:
    assert old_phrases(shown) == phrases
