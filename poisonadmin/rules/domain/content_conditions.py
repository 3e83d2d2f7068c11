"""Conditions on a message that is about to be delivered, compiled from a rule's columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from poisonadmin.core.domain.globs import Test, glob
from poisonadmin.core.domain.json_path import Path, parse_path, values_at

# A larger payload is not looked into: conditions on its JSON do not hold. Rules on the size are made for it.
MAX_JSON_BYTES = 4 * 1024 * 1024

CompileSchema = Callable[[Any], Callable[[Any], bool]]
Loads = Callable[[bytes], Any]
_NOT_READ = object()


class Subject:
    """A message that rules are asked about. Its payload is parsed once, and only when a rule needs to know.

    `expires_in_ms` None: it does not expire. `loads` raises ValueError, or RecursionError, for what is not JSON.
    """

    __slots__ = ("_document", "_headers", "_loads", "_lowered", "content_type", "expires_in_ms", "payload", "size")

    def __init__(
        self,
        payload: bytes,
        *,
        loads: Loads,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
        expires_in_ms: float | None = None,
        size: int | None = None,
    ) -> None:
        self.payload = payload
        self.size = len(payload) if size is None else size
        self.content_type = content_type
        self.expires_in_ms = expires_in_ms
        self._loads = loads
        self._headers = headers or {}
        self._lowered: dict[str, str] | None = None
        self._document: Any = _NOT_READ

    def header(self, name: str) -> str | None:
        """Return a header's value; `name` in lower case."""
        if self._lowered is None:
            self._lowered = {key.lower(): value for key, value in self._headers.items()}
        return self._lowered.get(name)

    @property
    def is_looked_into(self) -> bool:
        """Whether its payload is small enough to be parsed."""
        return self.size <= MAX_JSON_BYTES

    def document(self) -> Any:
        """Return the JSON value of the payload; raise ValueError for none."""
        if self._document is _NOT_READ:
            try:
                self._document = self._loads(self.payload)
            except (ValueError, RecursionError):
                self._document = ValueError
        if self._document is ValueError:
            raise ValueError
        return self._document


Condition = Callable[[Subject], bool]


def conditions_of(match: Mapping[str, Any], compile_schema: CompileSchema) -> Iterable[Condition]:
    """Yield the conditions that all must hold, the cheap ones first."""
    if size := match.get("size"):
        inside = _within(size)
        yield lambda subject: inside(subject.size)
    if pattern := match.get("content_type"):
        fits = glob(pattern, ignore_case=True)
        yield lambda subject: fits(subject.content_type)
    if limit := match.get("expires_within_ms"):
        yield lambda subject: subject.expires_in_ms is not None and subject.expires_in_ms <= limit
    for one in match.get("headers", ()):
        yield _header_condition(one)
    if match.get("not_json"):
        yield _is_not_json
    if any(name in match for name in ("json", "violates")):
        yield lambda subject: subject.is_looked_into
    for one in match.get("json", ()):
        yield _json_condition(one)
    if "violates" in match:
        is_valid = compile_schema(match["violates"])
        yield lambda subject: not is_valid(subject.document())


def _is_not_json(subject: Subject) -> bool:
    if not subject.is_looked_into:
        return False
    try:
        subject.document()
    except ValueError:
        return True
    return False


def _header_condition(one: Mapping[str, Any]) -> Condition:
    name = one["name"].lower()
    if "like" in one:
        fits = glob(one["like"])
        return lambda subject: (value := subject.header(name)) is not None and fits(value)
    wanted = "present" in one
    return lambda subject: (subject.header(name) is not None) is wanted


def _json_condition(one: Mapping[str, Any]) -> Condition:
    path = parse_path(one["path"])
    if "absent" in one:
        return lambda subject: not _any(subject, path, lambda _: True)
    if "missing" in one:
        return lambda subject: not _any(subject, path, lambda value: value is not None and value != "")
    name, expected = next((name, value) for name, value in one.items() if name != "path")
    test = _VALUE_TESTS[name](expected)
    return lambda subject: _any(subject, path, test)


def _any(subject: Subject, path: Path, test: Callable[[Any], bool]) -> bool:
    return any(test(value) for value in values_at(subject.document(), path))


def _equals(expected: Any) -> Callable[[Any], bool]:
    # In JSON true is not 1, which it is in Python.
    return lambda value: value == expected and isinstance(value, bool) is isinstance(expected, bool)


def _one_of(expected: Sequence[Any]) -> Callable[[Any], bool]:
    known = {(isinstance(one, bool), one) for one in expected}
    return lambda value: not isinstance(value, list | dict) and (isinstance(value, bool), value) in known


def _like(pattern: str) -> Callable[[Any], bool]:
    fits: Test = glob(pattern)
    return lambda value: isinstance(value, str) and fits(value)


def _within(bounds: Mapping[str, Any]) -> Callable[[Any], bool]:
    low, high = bounds.get("min", float("-inf")), bounds.get("max", float("inf"))
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _outside(bounds: Mapping[str, Any]) -> Callable[[Any], bool]:
    inside = _within(bounds)
    return lambda value: not inside(value)


_VALUE_TESTS: dict[str, Callable[[Any], Callable[[Any], bool]]] = {
    "present": lambda _: lambda _: True,
    "equals": _equals,
    "one_of": _one_of,
    "like": _like,
    "within": _within,
    "outside": _outside,
}
