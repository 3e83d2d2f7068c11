"""The side bar: a page declares its entry beside its view, with `@page(sidebar=SidebarEntry(...))`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from poisonadmin.core.domain.access import Permission


class Section(StrEnum):
    """The sections in their order."""

    TRIAGE = "Triage"
    SETUP = "Setup"
    SYSTEM = "System"


@dataclass(frozen=True)
class SidebarEntry:
    """An entry: its section and its place there, its name, its icon of Tabler and the letter that follows `g`.

    `also`: what else belongs to the entry, by the first word of its routes. Route and permission are those of the page.
    """

    section: Section
    place: int
    name: str
    icon: str
    key: str
    also: tuple[str, ...] = ()
    route: str = ""
    permission: Permission = Permission.READ


@cache
def sections() -> list[tuple[str, list[SidebarEntry]]]:
    """Return the sections with the entries that pages declare."""
    entries = sorted(_declared(get_resolver().url_patterns), key=lambda entry: entry.place)
    return [(section, [entry for entry in entries if entry.section == section]) for section in Section]


def _declared(parts: Iterable[URLPattern | URLResolver]) -> Iterator[SidebarEntry]:
    for part in parts:
        if isinstance(part, URLResolver):
            yield from _declared(part.url_patterns)
            continue
        view: Any = part.callback
        if entry := getattr(view, "sidebar", None):
            yield replace(entry, route=part.name, permission=view.permission)
