"""Words of the search box about payloads: which no index answers, so a search job looks for them."""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any

from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.domain.json_path import InvalidPath, parse_path

PAYLOAD = "payload"
# A term about a place in the payload's JSON; the word names the path behind the dot.
PAYLOAD_AT = "payload_at"
DEEP = frozenset({PAYLOAD, PAYLOAD_AT})
PRESENT = "present"
# Each is looked for in every payload that the other terms leave.
MAX_DEEP = 10
NEEDS_SEARCH = "needs_search"

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,30})(\.\d{1,30})?([eE][+-]?\d{1,3})?")
_COMPARED = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}


def at_path(path: str, text: str, *, is_quoted: bool) -> tuple[str, tuple[Any, ...]]:
    """Return the operator and the values that a value at a JSON path is compared with.

    A word without quotation marks stands for the number, `true`, `false` or `null` that it is, and for the text.
    Raise InvalidFilter.

    >>> at_path("$.total", ">100", is_quoted=False), at_path("$.total", "100", is_quoted=False)
    (('>', (100,)), ('=', (100, '100')))
    """
    try:
        parse_path(path)
    except InvalidPath as error:
        raise InvalidFilter("q", error.detail) from error
    if is_quoted:
        return "=", (text,)
    if text == "*":
        return PRESENT, ()
    if compared := _COMPARED.fullmatch(text):
        if (number := _number(compared[2])) is None:
            raise InvalidFilter("q", f"{text[:40]!r}: a place in a payload is compared with a number, as in >100.")
        return compared[1], (number,)
    if text in _LITERALS:
        return "=", (_LITERALS[text], text)
    number = _number(text)
    return "=", (text,) if number is None else (number, text)


def _number(text: str) -> int | float | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text) if text.lstrip("-").isdigit() else float(text)
    return number if isfinite(number) else None


def require_few(fields: Sequence[str]) -> None:
    """Do nothing where a search has few enough terms about payloads; raise InvalidFilter."""
    if sum(field in DEEP for field in fields) > MAX_DEEP:
        raise InvalidFilter("q", f"A search has at most {MAX_DEEP} words about payloads.")


def require_plain(fields: Sequence[str]) -> None:
    """Do nothing where no term is about payloads; raise InvalidFilter `needs_search`: no list can be narrowed so."""
    if not DEEP.isdisjoint(fields):
        raise InvalidFilter(
            "q",
            "`payload:` and `payload.$…:` are looked for by a search job, which reads the payloads: "
            "search on the page Triage, or POST /api/v1/searches/, and go on with the selection that it makes.",
            code=NEEDS_SEARCH,
        )
