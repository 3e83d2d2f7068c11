"""What users can set, and what the documents say, must agree; and the documents are written for diffs and newcomers."""

import re
import tomllib
from pathlib import Path

from tests.core.vocabulary import documents
from tests.docs import decisions

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = documents(ROOT)
READ_FROM_OUTSIDE = re.compile(
    r"\"((?:POISONADMIN_[A-Z_]+|(?:(?:MIGRATION_)?DATABASE|REDIS)_URL(?:_FILE)?|SPARK_MASTER|SPARK_REMOTE(?:_FILE)?|JAVA_HOME|PYSPARK_PYTHON))\""
)
MAX_CHARS = 120
# The mark of a heading or an item, and the bold or italic words that head a paragraph.
LEAD = re.compile(r"^ *(#+ |- |\d+\. )?(\d+\. )?(\*+[^*]+\*+ )?")
# A full stop, and another sentence after it on the same line.
SECOND_SENTENCE = re.compile(r"[.!?][)*_\"]* +[A-Z`*\[]")


def place(path: Path) -> str:
    """Return a document's name in the project."""
    return str(path.relative_to(ROOT))


def prose_lines(path: Path) -> list[str]:
    """Return a document's lines without code blocks, tables and diagrams."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not line.startswith(("|", "    "))]


def anchors(path: Path) -> set[str]:
    """Return what links to a document's headings end with."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_environment_variable_is_documented_and_every_documented_one_is_read() -> None:
    sources = [path for folder in ("poisonadmin", "workers", "sample") for path in (ROOT / folder).rglob("*.py")]
    read = {name for path in sources for name in READ_FROM_OUTSIDE.findall(path.read_text())}
    documented = set(
        re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/operate/configuration.md").read_text(), re.MULTILINE)
    )
    assert read == documented


def test_links_between_documents_lead_somewhere() -> None:
    astray = []
    for path in DOCUMENTS:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
            leads_to = path.parent / target if target else path
            if not leads_to.exists() or (anchor and anchor not in anchors(leads_to)):
                astray.append((place(path), f"{target}#{anchor}"))
    assert astray == []


def test_every_file_that_a_document_names_exists() -> None:
    pattern = r"`((?:poisonadmin|workers|tests|benchmarks|docs)/[\w/.-]+\.\w+)`"
    named = [
        (place(path), file) for path in DOCUMENTS for file in re.findall(pattern, path.read_text(encoding="utf-8"))
    ]
    assert [(document, file) for document, file in named if not (ROOT / file).exists()] == []


def test_a_line_of_prose_is_one_sentence_and_fits_a_screen() -> None:
    lines = [(place(path), line) for path in DOCUMENTS for line in prose_lines(path)]
    assert [found for found in lines if len(found[1]) > MAX_CHARS] == []
    assert [found for found in lines if SECOND_SENTENCE.search(LEAD.sub("", re.sub(r"`[^`]*`", "`", found[1])))] == []


def test_every_decision_says_context_choice_and_cost_on_less_than_a_page() -> None:
    for path in decisions.pages():
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. "), path.name
        parts = re.findall(r"^\*\*(Context|Choice|Cost)s?\.\*\*", text, re.MULTILINE)
        assert parts == ["Context", "Choice", "Cost"], path.name
        assert len(text.splitlines()) <= 70, path.name


def test_the_index_of_decisions_is_of_today() -> None:
    assert (decisions.FOLDER / "README.md").read_text(encoding="utf-8") == decisions.index(), (
        "run `python -m tests.docs.decisions > docs/develop/decisions/README.md`"
    )


def test_the_licence_is_the_one_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    [file] = project["license-files"]
    assert "Apache License\n                           Version 2.0" in (ROOT / file).read_text()


def test_the_readme_is_shorter_than_a_page_and_a_half_of_screen() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 76
