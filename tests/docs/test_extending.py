"""The recipes of docs/develop/extending.md lead to what they promise, and touch no more files than they list."""

import ast
import re
from pathlib import Path

import pytest

from poisonadmin.search.domain.payload_words import DEEP
from poisonadmin.search.domain.words import FREE, WORDS
from poisonadmin.search.queries.meanings import MEANINGS
from tests.docs.recipes import (
    ACTION,
    ATTEMPT_COLUMN,
    COLUMN,
    FEATURE,
    FIELD,
    KIND_OF_RUN,
    NEW_PAGE,
    PAGE,
    ROOT,
    SETTING,
    WORD,
    Recipe,
    files_of,
    follow,
)
from tests.docs.search_words import table

FOLLOWED = [ACTION, COLUMN, ATTEMPT_COLUMN, FIELD, SETTING, WORD, NEW_PAGE, KIND_OF_RUN, FEATURE]
BROKER_FILES = 8
CHANNEL_FILES = 4


def files_that_mention(word: str) -> set[str]:
    """Return the code and templates in which a regular expression matches; migrations are generated."""
    modules = [file for folder in ("poisonadmin", "workers") for file in (ROOT / folder).rglob("*.py")]
    named = [file for file in (ROOT / "templates").rglob("*.html") if re.search(word, file.read_text(encoding="utf-8"))]
    named += [file for file in modules if "migrations" not in file.parts and re.search(word, code_of(file, word))]
    return {str(file.relative_to(ROOT)) for file in named}


def code_of(module: Path, word: str) -> str:
    """Return a module without its docstrings, where the word may be an example; nothing where it has no such word."""
    source = module.read_text(encoding="utf-8")
    if not re.search(word, source):
        return ""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)


@pytest.mark.parametrize("recipe", FOLLOWED, ids=lambda recipe: recipe.heading)
def test_a_recipe_that_is_followed_on_a_copy_gives_what_it_promises(recipe: Recipe, tmp_path: Path) -> None:
    follow(recipe, tmp_path)


@pytest.mark.parametrize("recipe", FOLLOWED, ids=lambda recipe: recipe.heading)
def test_a_recipe_lists_the_files_that_it_touches_and_they_are_few(recipe: Recipe) -> None:
    assert files_of(recipe.heading) == recipe.touched
    assert len(files_of(recipe.heading)) <= recipe.at_most


@pytest.mark.parametrize("recipe", FOLLOWED, ids=lambda recipe: recipe.heading)
def test_each_change_of_a_recipe_is_needed(recipe: Recipe, tmp_path: Path) -> None:
    shorter = Recipe(recipe.heading, recipe.at_most, recipe.insertions[:-1], recipe.check)
    with pytest.raises(AssertionError):
        follow(shorter, tmp_path)


def test_no_other_file_knows_an_action() -> None:
    assert files_that_mention(r"Event\.RESTORED\b|decisions\.restore\b|def restore\b") <= set(files_of(ACTION.heading))


def test_no_other_file_knows_a_setting_but_its_use() -> None:
    use = {"poisonadmin/policies/domain/retry_decision.py"}
    assert files_that_mention("fail_non_delivered") == set(files_of(SETTING.heading)) | use


def test_the_table_of_search_words_is_what_is_declared() -> None:
    assert f"\n{table()}\n" in (ROOT / "docs" / "use" / "search.md").read_text(encoding="utf-8"), (
        "print it with: python -m tests.docs.search_words"
    )


def test_every_search_word_has_a_meaning_or_is_looked_for_in_payloads() -> None:
    assert {word.says for word in WORDS} | {FREE} == {*MEANINGS, *DEEP}


def test_no_other_file_knows_a_configuration_field_but_its_use() -> None:
    use = {
        "poisonadmin/decisions/restart_jobs/commands.py",
        "poisonadmin/decisions/restart_jobs/pages.py",  # its section of the form
        "poisonadmin/decisions/restart_jobs/queries.py",
        "templates/restart_jobs/restart_job.html",
    }
    assert files_that_mention(r"\bmax_restarts\b") == set(files_of(FIELD.heading)) | use


def test_no_other_file_knows_a_broker() -> None:
    files = [file.replace("<kind>", "kafka") for file in files_of("A broker")]
    peculiarity = {"workers/brokers/kafka/resolver.py"}
    assert files_that_mention("(?i)kafka") == set(files) | peculiarity
    assert len(files) <= BROKER_FILES


def test_every_listed_file_exists() -> None:
    listed = re.findall(r"`((?:poisonadmin|workers|templates|tests)/[^`]+\.\w+)`", PAGE.read_text(encoding="utf-8"))
    assert listed
    examples = {"<kind>": "kafka", "<channel>": "email", "<feature>": "addresses", "<page>": "addresses"}
    for file in listed:
        assert (ROOT / re.sub("<[a-z]+>", lambda found: examples[found[0]], file)).exists(), file


def test_no_other_file_knows_an_alert_channel() -> None:
    files = [file.replace("<channel>", "email") for file in files_of("An alert channel")]
    named = r"""EMAIL = ["']email["']|ChannelKind\.EMAIL|channels\.email|AlertChannel\(["']E-mail"""
    assert files_that_mention(named) == set(files)
    assert len(files) <= CHANNEL_FILES


def test_no_other_file_than_its_feature_s_knows_a_kind_of_run() -> None:
    feature = {file for file in files_that_mention(r"KindName\.COMPARE\b|COMPARISON\b") if "/comparisons/" in file}
    known = files_that_mention(r"KindName\.COMPARE\b|COMPARE = |comparisons\.work\b")
    assert known - feature == set(files_of(KIND_OF_RUN.heading))
