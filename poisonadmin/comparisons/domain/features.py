"""A message as fields with values, a bounded number of them, whatever it holds."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple

MAX_DEPTH = 12
MAX_FIELDS = 250
MAX_NAME_CHARS = 200
# A longer value is unlike any other; that there is one is still told.
MAX_VALUE_CHARS = 100
# Of one array, and in one message of all values of a field within arrays.
MAX_ELEMENTS = 100
MAX_PAYLOAD_BYTES = 256 * 1024
# A number as JSON writes it, that a float holds exactly enough.
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,6})?")
_PLAIN_NAME = re.compile(r"[^\s.\[\]'\"*$]+")
_LARGEST = 1e15
_WORDS = {True: "true", False: "false", None: "null"}


class Feature(NamedTuple):
    """A field of a message with one of its values. `text`: None where it is too long, or holds others.

    `number`: the value where it is one, and the field has no more than one.
    """

    field: str
    text: str | None
    number: float | None = None


@dataclass(frozen=True)
class ComparedMessage:
    """The compared parts of a message. `headers`, `keys`: objects of texts as JSON; `payload`: None to leave it out.

    `address`: where it came in. `destination`, `node` and `consumer_version` are those of its last attempt.
    """

    address: str
    received_at: datetime | None = None
    received_by: str | None = None
    content_type: str | None = None
    payload_bytes: int | None = None
    destination: str | None = None
    node: str | None = None
    consumer_version: str | None = None
    headers: str | None = None
    keys: str | None = None
    payload: bytes | None = None


ATTEMPT_FIELDS = frozenset({"destination", "node", "consumer_version"})


def features(subject: ComparedMessage, *, loads: Callable[[bytes], Any] = json.loads) -> list[Feature]:
    """Return the fields of a message with each of its values once. `loads` parses JSON or raises ValueError.

    >>> payload = b'{"total": 12.50, "items": [{"sku": "a"}]}'
    >>> some = ComparedMessage("orders", keys='{"customer":"c-7"}', payload=payload)
    >>> [tuple(one) for one in features(some)]  # doctest: +NORMALIZE_WHITESPACE
    [('address', 'orders', None), ('key.customer', 'c-7', None), ('payload.$.total', '12.5', 12.5),
     ('payload.$.items', None, None), ('payload.$.items[*].sku', 'a', None)]
    """
    found = _of_envelope(subject)
    for prefix, named in (("header.", subject.headers), ("key.", subject.keys)):
        for name, value in islice(_object(named).items(), MAX_FIELDS):
            if _is_nameable(name):
                found.append(_feature(prefix + name, value))
    if subject.payload is not None and len(subject.payload) <= MAX_PAYLOAD_BYTES:
        try:
            document = loads(subject.payload)
        except (ValueError, RecursionError):
            return found
        walk = _Walk([])
        walk.see("payload.$", document, MAX_DEPTH)
        found += walk.found
    return found


def _of_envelope(subject: ComparedMessage) -> list[Feature]:
    found = [
        Feature(field, _bounded(value))
        for field in ("address", "received_by", "content_type", "destination", "node", "consumer_version")
        if (value := getattr(subject, field)) is not None
    ]
    if subject.payload_bytes is not None:
        found.append(_feature("payload_bytes", subject.payload_bytes))
    if subject.received_at is not None:
        found.append(_feature("received_hour", subject.received_at.hour))
    return found


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=10_000)
def _is_nameable(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_CHARS and name.isprintable() and not ("'" in name and '"' in name)


@dataclass
class _Walk:
    """The fields below a document; of fields within arrays all values, as a message may have several."""

    found: list[Feature]
    seen: dict[str, set[str | None]] = field(default_factory=dict)

    def see(self, path: str, value: Any, depth: int, *, is_one: bool = True) -> None:
        """Note what is at a path, and below it; `is_one`: a message has no other value at this path."""
        if len(self.found) >= MAX_FIELDS or len(path) > MAX_NAME_CHARS:
            return
        if depth and isinstance(value, dict):
            for name, inner in islice(value.items(), MAX_FIELDS):
                if _is_nameable(name):
                    self.see(path + step(name), inner, depth - 1, is_one=is_one)
        elif depth and isinstance(value, list):
            self._note(Feature(path, None), is_one)
            for inner in value[:MAX_ELEMENTS]:
                self.see(f"{path}[*]", inner, depth - 1, is_one=False)
        else:
            is_inner = isinstance(value, dict | list)
            self._note(Feature(path, None) if is_inner else _feature(path, value), is_one)

    def _note(self, one: Feature, is_one: bool) -> None:
        if is_one:
            self.found.append(one)
            return
        values = self.seen.setdefault(one.field, set())
        if one.text not in values and len(values) < MAX_ELEMENTS:
            values.add(one.text)
            self.found.append(Feature(one.field, one.text))


@lru_cache(maxsize=10_000)
def step(name: str) -> str:
    """Return the step to a member of an object, as a path has it (core/domain/json_path.py).

    >>> step("total"), step("line items")
    ('.total', "['line items']")
    """
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    return f'["{name}"]' if "'" in name else f"['{name}']"


def _feature(field: str, value: Any) -> Feature:
    if isinstance(value, str):
        return Feature(field, _bounded(value), float(value) if _NUMBER.fullmatch(value) else None)
    if value is True or value is False or value is None:
        return Feature(field, _WORDS[value])
    if isinstance(value, int | float):
        return _of_number(field, value)
    return Feature(field, _bounded(str(value)))


def _of_number(field: str, value: float) -> Feature:
    if not isfinite(value) or abs(value) >= _LARGEST:
        # A whole number that no double holds is a name, not an amount: it is compared by its digits.
        return Feature(field, _bounded(str(value)) if isinstance(value, int) else None)
    return Feature(field, str(int(value)) if value == int(value) else repr(value), float(value))


def _bounded(text: str) -> str | None:
    return text if len(text) <= MAX_VALUE_CHARS else None
