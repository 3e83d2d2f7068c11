"""Places in a JSON document: `$.order.id`, `$.items[0].sku`, `$['a name'].x`, and `[*]` for each of an array."""

import re
from collections.abc import Iterator
from typing import Any

from poisonadmin.core.domain.errors import PoisonAdminError

MAX_PATH_CHARS = 255
MAX_STEPS = 20
# What `[*]` may come to in one document.
MAX_VALUES = 10_000

EACH = None
Step = str | int | None
Path = tuple[Step, ...]

_STEP = re.compile(r"\.([^\s.\[\]'\"*$]+)|\[(\d{1,9}|\*)\]|\['([^']+)'\]|\[\"([^\"]+)\"\]")


class InvalidPath(PoisonAdminError):
    """Raised when a text is not a JSON path."""

    code = "invalid_json_path"


def parse_path(text: str) -> Path:
    """Return the steps of a path; an empty tuple is the document. Raise InvalidPath.

    >>> parse_path("$.order['line items'][0].sku")
    ('order', 'line items', 0, 'sku')
    """
    if not isinstance(text, str) or not text.startswith("$") or not text.isprintable():
        raise InvalidPath(f"{str(text)[:80]!r} is not a path: write `$.order.id`, `$.items[0].sku`, `$['a name']`.")
    if len(text) > MAX_PATH_CHARS:
        raise InvalidPath(f"A path has at most {MAX_PATH_CHARS} characters, this one has {len(text)}.")
    steps: list[Step] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise InvalidPath(f"{text!r} is not a path: character {at + 1} begins neither `.name` nor `[…]`.")
        name, index, quoted, double = found.groups()
        steps.append(EACH if index == "*" else int(index) if index else name or quoted or double)
        at = found.end()
    if len(steps) > MAX_STEPS:
        raise InvalidPath(f"{text!r} has more than {MAX_STEPS} steps.")
    return tuple(steps)


def values_at(document: Any, path: Path) -> Iterator[Any]:
    """Yield what is at the path, nothing where there is nothing; with `[*]` each, at most `MAX_VALUES`.

    >>> list(values_at({"items": [{"sku": "a"}, {}, {"sku": "b"}]}, parse_path("$.items[*].sku")))
    ['a', 'b']
    """
    found = [document]
    for step in path:
        if step is EACH:
            found = [value for one in found if isinstance(one, list) for value in one[:MAX_VALUES]][:MAX_VALUES]
        elif isinstance(step, str):
            found = [one[step] for one in found if isinstance(one, dict) and step in one]
        else:
            found = [one[step] for one in found if isinstance(one, list) and len(one) > step]
    yield from found
