"""Writes the index of the decisions: `python -m tests.docs.decisions > docs/develop/decisions/README.md`."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "develop" / "decisions"
HEAD = """\
# Decisions

`python -m tests.docs.decisions > docs/develop/decisions/README.md` writes this index.
A decision is a page with its context, choice and cost.
When a decision changes, its page is rewritten; a number that is missing is of a decision that no longer holds.

| | decision |
|---|---|
"""


def pages() -> list[Path]:
    """Return the decisions, in the order of their numbers."""
    return sorted(FOLDER.glob("0*.md"))


def index() -> str:
    """Return the index as Markdown."""
    firsts = [(path.name, path.read_text(encoding="utf-8").splitlines()[0]) for path in pages()]
    rows = [(name, *first.removeprefix("# ").split(". ", 1)) for name, first in firsts]
    return HEAD + "".join(f"| {number} | [{title}]({name}) |\n" for name, number, title in rows)


if __name__ == "__main__":
    sys.stdout.write(index())
