"""Conditions on a JSON document: what must be, or not be, at a path. Rules and deep searches ask the same ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poisonadmin.core.domain.globs import Test, glob
from poisonadmin.core.domain.json_path import parse_path, values_at

Holds = Callable[[Any], bool]


def json_condition(one: Mapping[str, Any]) -> Holds:
    """Return what tells of a document whether the condition holds. Raise InvalidPath.

    >>> json_condition({"path": "$.items[*].price", "within": {"min": 10}})({"items": [{"price": 9}, {"price": 10}]})
    True
    """
    path = parse_path(one["path"])
    if "absent" in one:
        return lambda document: not any(True for _ in values_at(document, path))
    if "missing" in one:
        # 0 and false are values; a text, a list or an object without anything in it is none.
        return lambda document: all(value in (None, "", [], {}) for value in values_at(document, path))
    name, expected = next((name, value) for name, value in one.items() if name != "path")
    test = _VALUE_TESTS[name](expected)
    return lambda document: any(test(value) for value in values_at(document, path))


def _equals(expected: Any) -> Holds:
    # In JSON true is not 1, which it is in Python.
    return lambda value: value == expected and isinstance(value, bool) is isinstance(expected, bool)


def _one_of(expected: Sequence[Any]) -> Holds:
    known = {(isinstance(one, bool), one) for one in expected}
    return lambda value: not isinstance(value, list | dict) and (isinstance(value, bool), value) in known


def _like(pattern: str) -> Holds:
    fits: Test = glob(pattern)
    return lambda value: isinstance(value, str) and fits(value)


def within(bounds: Mapping[str, Any]) -> Holds:
    """Return what tells whether a value is a number from `min` to `max`; both are optional."""
    low, high = bounds.get("min", float("-inf")), bounds.get("max", float("inf"))
    return lambda value: _is_number(value) and low <= value <= high


def _between(bounds: Mapping[str, Any]) -> Holds:
    low, high = bounds.get("above", float("-inf")), bounds.get("below", float("inf"))
    return lambda value: _is_number(value) and low < value < high


def _outside(bounds: Mapping[str, Any]) -> Holds:
    inside = within(bounds)
    return lambda value: not inside(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_VALUE_TESTS: dict[str, Callable[[Any], Holds]] = {
    "present": lambda _: lambda _: True,
    "equals": _equals,
    "one_of": _one_of,
    "like": _like,
    "within": within,
    "between": _between,
    "outside": _outside,
}
