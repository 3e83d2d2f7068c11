"""Annotations of failure groups and messages, checked: notes, ticket links, tags and snoozes."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.settings import InvalidValue

MAX_NOTE_CHARS = 4000
MAX_URL_CHARS = 1000
MAX_TAGS = 10
MAX_TAG_CHARS = 30
# Of a message, with those that rules have put on it.
MAX_TAGS_OF_A_MESSAGE = 20
MAX_SNOOZE = timedelta(days=366)
MAX_GROWTH = 1_000_000
_NUMBER = re.compile(r"[0-9]{1,7}")


class InvalidAnnotation(InvalidField):
    """Raised when an annotation may not be so; `field` names what is wrong."""

    code = "invalid_annotation"


def checked_note(note: str | None) -> str:
    """Return the note without blanks around it, an empty one for None; raise InvalidAnnotation."""
    note = note or ""
    if not isinstance(note, str):
        raise InvalidAnnotation("note", "must be a text, or null for none")
    if len(note) > MAX_NOTE_CHARS:
        raise InvalidAnnotation("note", f"may have at most {MAX_NOTE_CHARS} characters, and has {len(note)}")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in note):
        raise InvalidAnnotation("note", "holds a character that cannot be stored")
    return note.strip()


def checked_ticket_url(url: str | None) -> str | None:
    """Return the URL, None for an empty one; raise InvalidAnnotation for what a page could not link to safely.

    >>> checked_ticket_url("https://tickets.example.org/browse/OPS-7")
    'https://tickets.example.org/browse/OPS-7'
    """
    if not url:
        return None
    if len(url) > MAX_URL_CHARS:
        raise InvalidAnnotation("ticket_url", f"may have at most {MAX_URL_CHARS} characters")
    if not url.isascii() or not url.isprintable() or any(character in url for character in ' \\<>"{}|^`'):
        raise InvalidAnnotation("ticket_url", "may hold only printable ASCII without spaces, backslashes and brackets")
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise InvalidAnnotation("ticket_url", f"cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not has_host:
        raise InvalidAnnotation("ticket_url", "must be a link such as https://tickets.example.org/OPS-7")
    if "@" in parts.netloc:
        raise InvalidAnnotation("ticket_url", "may not hold a user or password")
    return url


def checked_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags in lower case, each once, in order; raise InvalidAnnotation.

    >>> checked_tags(["Payments", "eu", "payments"])
    ['eu', 'payments']
    """
    found = sorted({tag.strip().lower() for tag in tags})
    if len(found) > MAX_TAGS:
        raise InvalidAnnotation("tags", f"may be at most {MAX_TAGS}")
    for tag in found:
        is_word = tag.isprintable() and not any(character.isspace() or character == "," for character in tag)
        if not is_word or not 1 <= len(tag) <= MAX_TAG_CHARS:
            raise InvalidAnnotation("tags", f"must be words of 1 to {MAX_TAG_CHARS} characters")
    return found


def growth_of(text: str) -> dict[str, int]:
    """Return the growth of a group that a person writes: failures, or a share of those that there are.

    Errors: `InvalidValue`.

    >>> growth_of("100"), growth_of("20 %")
    ({'by': 100}, {'percent': 20})
    """
    number, percent, rest = text.replace(" ", "").partition("%")
    if rest or not _NUMBER.fullmatch(number) or not 1 <= int(number) <= MAX_GROWTH:
        raise InvalidValue("must be a number such as 100, or a share such as 20 %.")
    return {"percent" if percent else "by": int(number)}


def failures_when(grown: Mapping[str, Any] | None, *, now: int) -> int | None:
    """Return how many failures a group that has `now` will have when it has grown `by` a number or `percent`.

    None: it is not waited for. Errors: `InvalidAnnotation`.

    >>> failures_when({"by": 100}, now=50), failures_when({"percent": 20}, now=51)
    (150, 62)
    """
    if grown is None:
        return None
    kind, value = next(iter(grown.items())) if len(grown) == 1 else ("", None)
    if kind not in ("by", "percent") or type(value) is not int or not 1 <= value <= MAX_GROWTH:
        raise InvalidAnnotation("snoozed_until_grown", f"must be by or percent, a whole number up to {MAX_GROWTH:,}")
    return now + (value if kind == "by" else max(1, -(-now * value // 100)))


def checked_snooze(until: datetime | None, *, now: datetime) -> datetime | None:
    """Return the time until which a group is snoozed, None for not at all; raise InvalidAnnotation."""
    if until is not None and not now < until <= now + MAX_SNOOZE:
        raise InvalidAnnotation("snoozed_until", f"must be in the future, at most {MAX_SNOOZE.days} days from now")
    return until
