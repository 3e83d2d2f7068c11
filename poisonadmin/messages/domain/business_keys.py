"""Business keys: what a policy's `business_keys` name is taken out of a message at intake, to be looked up by later.

A key is a JSON path, `$.order.id`, `$.lines[0].sku`, `$['a.b']`, or a header, `header:X-Order`; `name=` before either
gives it a name of its own.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from poisonadmin.messages.domain.envelope_fields import storable

MAX_NAME_CHARS = 100
MAX_VALUE_CHARS = 255
MAX_STEPS = 16
# A longer payload is not parsed for its keys; what headers say is taken all the same.
MAX_PARSED_BYTES = 1024 * 1024

Loads = Callable[[bytes], Any]
Step = str | int

_NAMED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.\-]*)=(.+)", re.DOTALL)
_STEP = re.compile(r"\.(?P<word>[^.\[\]'\"\s]+)|\[(?P<index>\d{1,6})\]|\['(?P<quoted>[^']+)'\]")
_HEADER = "header:"


class InvalidBusinessKey(ValueError):
    """Raised when a text is neither a JSON path nor a header."""


@dataclass(frozen=True)
class KeyDefinition:
    """`name` is what it is looked up by. One of `header` and `path` is set; a step is a member's name or an index."""

    name: str
    header: str | None = None
    path: tuple[Step, ...] = ()


def parse_key(text: str) -> KeyDefinition:
    """Return what the text names; without a name of its own a key is called as its path without `$.`, or its header.

    A path may leave out its `$.`. Errors: `InvalidBusinessKey`.

    >>> parse_key("$.order.id")
    KeyDefinition(name='order.id', header=None, path=('order', 'id'))
    >>> parse_key("sku=$.lines[0].sku")
    KeyDefinition(name='sku', header=None, path=('lines', 0, 'sku'))
    >>> parse_key("header:X-Order")
    KeyDefinition(name='X-Order', header='X-Order', path=())
    """
    named = _NAMED.fullmatch(text)
    name, configured = (named[1], named[2]) if named else ("", text)
    if configured.startswith(_HEADER):
        header = configured.removeprefix(_HEADER)
        if not header or not header.isprintable():
            raise InvalidBusinessKey(f"{text!r} names no header, as `header:X-Order` does.")
        return KeyDefinition(_checked_name(name or header, text), header=header)
    rest = configured.removeprefix("$") if configured.startswith("$") else f".{configured}"
    return KeyDefinition(_checked_name(name or rest.removeprefix("."), text), path=_steps(rest, text))


def extract(
    keys: Sequence[KeyDefinition], payload: bytes, headers: Mapping[str, str], *, loads: Loads = json.loads
) -> dict[str, str]:
    """Return name -> value of the keys that the message has: texts as they are, booleans as in JSON, numbers in the
    digits that came (R19).

    At most 255 characters of a value are kept. What is absent, empty, an object or a list is left out, as is everything
    in a payload that is no JSON or longer than 1 MiB. `loads` may be any parser that raises `ValueError`.

    >>> keys = [parse_key("$.order.id"), parse_key("header:X-Shop")]
    >>> extract(keys, b'{"order": {"id": 4711}}', {"x-shop": "eu"})
    {'order.id': '4711', 'X-Shop': 'eu'}
    >>> extract([parse_key("$.id")], b'{"id": 100000000000000000000001.50}', {})
    {'id': '100000000000000000000001.50'}
    >>> extract([parse_key("$.id")], b'{"id": -0, "size": 1E400}', {})
    {'id': '-0'}
    """
    found: dict[str, str] = {}
    document: Any = None
    if any(key.header is None for key in keys):
        document = _document(payload, loads)
        if document is None or any(_has_lost_form(_at(document, key.path)) for key in keys):
            # A double has lost digits of what came, if it could hold it at all, and -0 its sign. Read again, numbers
            # are the texts that they are written as.
            document = _document(payload, partial(json.loads, parse_int=str, parse_float=str))
    for key in keys:
        value = _header(key.header, headers) if key.header is not None else _at(document, key.path)
        text = _text(value)
        if text:
            found.setdefault(key.name, text)
    return found


@lru_cache(maxsize=1_000)
def parsed_keys(texts: tuple[str, ...]) -> tuple[KeyDefinition, ...]:
    """Return the keys that a policy's setting names. Errors: `InvalidBusinessKey`, also where two have one name."""
    keys = tuple(parse_key(text) for text in texts)
    names = [key.name for key in keys]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidBusinessKey(f"Two keys are called {twice!r}; give one another name, as in `other=$.path`.")
    return keys


def shortened(value: str) -> str:
    """Return a value as it is stored, and therefore as it has to be looked for."""
    return storable(value)[:MAX_VALUE_CHARS]


def _checked_name(name: str, text: str) -> str:
    if len(name) > MAX_NAME_CHARS:
        raise InvalidBusinessKey(f"{text!r}: a key's name has at most {MAX_NAME_CHARS} characters; give it one.")
    return name


def _steps(rest: str, text: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise InvalidBusinessKey(f"{text!r} is no JSON path such as `$.order.id` or `$.lines[0].sku`.")
        steps.append(int(found["index"]) if found["index"] else found["word"] or found["quoted"])
        at = found.end()
    if not 1 <= len(steps) <= MAX_STEPS:
        raise InvalidBusinessKey(f"{text!r}: a path has 1 to {MAX_STEPS} steps.")
    return tuple(steps)


def _document(payload: bytes, loads: Loads) -> Any:
    if len(payload) > MAX_PARSED_BYTES or payload[:64].lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return loads(payload)
    except (ValueError, RecursionError):
        return None


def _has_lost_form(value: Any) -> bool:
    return isinstance(value, float) or (value == 0 and not isinstance(value, bool))


def _at(document: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
    return document


def _header(name: str, headers: Mapping[str, str]) -> str | None:
    if name in headers:
        return headers[name]
    wanted = name.lower()
    return next((value for given, value in headers.items() if given.lower() == wanted), None)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return shortened(value.strip())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return shortened(str(value))
    return ""
