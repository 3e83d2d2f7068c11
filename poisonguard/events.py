"""Server-sent events, as far as the poison list uses them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple


class ListEvent(NamedTuple):
    """One event. `kind`: listed, released, loaded; or whatever a later server sends, to be ignored."""

    kind: str
    body: dict[str, Any]


def events(line: Callable[[], bytes]) -> Iterator[ListEvent]:
    """Yield events from lines that end in a line break, until there are no more; comments are passed over.

    >>> lines = iter([b": hello\\n", b"\\n", b"event: listed\\n", b'data: {"bookmark": "13"}\\n', b"\\n", b""])
    >>> list(events(lambda: next(lines)))
    [ListEvent(kind='listed', body={'bookmark': '13'})]
    """
    kind, text = "", ""
    while raw := line():
        said = raw.decode("utf-8", "replace").rstrip("\r\n")
        if said:
            field, _, value = said.partition(":")
            if field == "event":
                kind = value.strip()
            elif field == "data":
                text += value
            continue
        if kind:
            yield ListEvent(kind, _object(text))
        kind, text = "", ""


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
