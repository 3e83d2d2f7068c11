"""The documentation for users and operators as pages of help: its Markdown as HTML, with linked headings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

FOLDERS = {"use": "Use", "operate": "Operate"}
START = "use/dashboard"
# Of the ids of headings, which no id of a page begins with: help is shown within pages.
PREFIX = "help-"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_DOCUMENT = re.compile(r"(?:\.\./(?P<folder>use|operate)/)?(?P<name>[a-z-]+)\.md")


@dataclass(frozen=True)
class Heading:
    """A heading of a document; `anchor` is empty for the document itself."""

    title: str
    document: str
    anchor: str = ""

    @property
    def path(self) -> str:
        """The URL of the page of help, at the heading."""
        return help_path(f"{self.document}#{self.anchor}")


@dataclass(frozen=True)
class Document:
    """A document. `name`: its folder and file, such as `use/search`; `headings`: its title, then the others."""

    name: str
    headings: tuple[Heading, ...]
    html: SafeString


def help_path(topic: str) -> str:
    """Return the URL of the page of help about a topic: a document and a heading, such as `use/search#words`."""
    document, _, anchor = (topic or START).partition("#")
    return reverse("help-page", args=document.split("/")) + (anchor and f"#{PREFIX}{anchor}")


@cache
def documents() -> dict[str, Document]:
    """Return the documents by name, those for users first."""
    files = [file for folder in FOLDERS for file in sorted((settings.BASE_DIR / "docs" / folder).glob("*.md"))]
    return {document.name: document for document in map(_read, files)}


def headings_holding(text: str, limit: int) -> list[tuple[str, Heading]]:
    """Return the headings that hold every word of the text, each behind the name of its document as it is found.

    Those with the text in the heading itself come first.
    """
    named = [
        (one.title if one.anchor == "" else f"{document.headings[0].title}: {one.title}", one)
        for document in documents().values()
        for one in document.headings
    ]
    found = [pair for pair in named if all(word in pair[0].lower() for word in text.lower().split())]
    return sorted(found, key=lambda pair: text.lower() not in pair[1].title.lower())[:limit]


def _read(file: Path) -> Document:
    name = f"{file.parent.name}/{file.stem}"
    # A diagram is drawn by who reads the file elsewhere; here it would be its source.
    tokens = [token for token in _MARKDOWN.parse(file.read_text(encoding="utf-8")) if token.info != "mermaid"]
    headings = [Heading(_text(tokens[1]), name)]
    for token, within, close in zip(tokens[3:], tokens[4:], tokens[5:], strict=False):
        if token.type == "heading_open":
            anchor = re.sub(r"[^\w\- ]", "", _text(within).lower()).replace(" ", "-")
            token.attrSet("id", f"{PREFIX}{anchor}")
            headings.append(Heading(_text(within), name, anchor))
        elif token.type == "th_open" and not within.content:
            token.tag = close.tag = "td"
        elif token.type == "table_open":
            token.attrs |= {"class": "table", "tabindex": "0"}
    for token in tokens:
        _relink(token.children or (), file.parent.name)
    # Our own files, of whose HTML nothing is let through.
    html = mark_safe(_MARKDOWN.renderer.render(tokens[3:], _MARKDOWN.options, {}))  # noqa: S308
    return Document(name, tuple(headings), html)


def _text(token: Token) -> str:
    return "".join(child.content for child in token.children or ())


def _relink(tokens: Iterable[Token], folder: str) -> None:
    """Have links lead to pages of help or to other sites; those to elsewhere in the repository become plain text."""
    for token in tokens:
        if token.type == "image":
            token.type, token.content = "text", ""
        elif token.type == "link_open":
            target, mark, anchor = str(token.attrs.pop("href")).partition("#")
            if found := _DOCUMENT.fullmatch(target):
                path = help_path(f"{found['folder'] or folder}/{found['name']}{mark}{anchor}")
                token.attrs |= {"href": path, "hx-get": path}  # which the panel follows, and no page
            elif not target:
                token.attrSet("href", f"#{PREFIX}{anchor}")
            elif target.startswith("https://"):
                token.attrSet("href", target + mark + anchor)
