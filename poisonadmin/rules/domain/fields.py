"""Checks on the columns of a rule, one a column; each returns the value as it is stored, or raises naming the field."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address, validate_pattern
from poisonadmin.core.domain.durations import between
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.json_path import InvalidPath, parse_path
from poisonadmin.core.domain.settings import of_field
from poisonadmin.core.domain.strict_json import InvalidJson, dumps
from poisonadmin.destinations.domain.http_config import TOKEN
from poisonadmin.policies.domain.settings import MAX_COUNT, MAX_DELAY_MS

MAX_PATTERN_CHARS = 1000
MAX_CONDITIONS = 50
MAX_VALUES = 1000
MAX_TAGS = 10
MAX_TAG_CHARS = 50
MAX_SCHEMA_BYTES = 256 * 1024
MAX_FACTOR = 1000.0

Check = Callable[[str, Any], Any]


class InvalidRule(InvalidField):
    """Raised when a column of a rule is invalid; `field` is its name."""

    code = "invalid_rule"


def address_pattern(field: str, value: Any) -> str:
    """Check a pattern over addresses, as policies have them."""
    try:
        return validate_pattern(value)
    except InvalidAddress as error:
        raise InvalidRule(field, error.detail) from None


def address(field: str, value: Any) -> str:
    """Check an address."""
    try:
        return validate_address(value)
    except InvalidAddress as error:
        raise InvalidRule(field, error.detail) from None


def text_pattern(field: str, value: Any) -> str:
    """Check a pattern over text."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_PATTERN_CHARS or "\0" in value:
        raise InvalidRule(field, f"must be a text of 1 to {MAX_PATTERN_CHARS} characters; * and ? are wildcards.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRule(field, "holds a lone surrogate, which no text has.") from None
    return value


def flag(field: str, value: Any) -> bool:
    """Check a condition that is either there or not."""
    if value is not True:
        raise InvalidRule(field, "is true, or left out.")
    return True


def factor(field: str, value: Any) -> float:
    """Check what a wait is multiplied with."""
    return float(_number(field, value, 0, MAX_FACTOR))


def delay(field: str, value: Any) -> int:
    """Check a wait, in milliseconds or as people write it."""
    return _duration(field, value, 0)


def wait(field: str, value: Any) -> int:
    """Check a span of at least a millisecond."""
    return _duration(field, value, 1)


def size_range(field: str, value: Any) -> dict[str, Any]:
    """Check bounds in bytes."""
    return _range(field, value, lambda name, bound: _whole(name, bound, 0, MAX_COUNT))


def counts(field: str, value: Any) -> dict[str, Any]:
    """Check bounds of a count from 1."""
    return _range(field, value, lambda name, bound: _whole(name, bound, 1, MAX_COUNT))


def status_range(field: str, value: Any) -> dict[str, Any]:
    """Check bounds of an HTTP status; one number is both."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = {"min": value, "max": value}
    return _range(field, value, lambda name, bound: _whole(name, bound, 100, 599))


def tags(field: str, value: Any) -> list[str]:
    """Check a list of tags."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_TAGS:
        raise InvalidRule(field, f"must be a list of 1 to {MAX_TAGS} tags.")
    for tag in value:
        if not isinstance(tag, str) or not 1 <= len(tag) <= MAX_TAG_CHARS or not tag.isprintable() or "," in tag:
            raise InvalidRule(field, f"a tag is a printable text of 1 to {MAX_TAG_CHARS} characters without commas.")
    return sorted(set(value))


def schema(field: str, value: Any) -> Any:
    """Check the outside of a JSON Schema: a strict JSON object, or boolean, of bounded size."""
    if not isinstance(value, dict | bool):
        raise InvalidRule(field, "must be a JSON Schema: an object, or true or false.")
    try:
        raw = dumps(value)
    except InvalidJson as error:
        raise InvalidRule(field, error.detail) from None
    if b"\\u0000" in raw:
        raise InvalidRule(field, "must not name the character U+0000, which the database cannot keep.")
    if len(raw) > MAX_SCHEMA_BYTES:
        raise InvalidRule(field, f"must have at most {MAX_SCHEMA_BYTES} bytes.")
    return value


def header_conditions(field: str, value: Any) -> list[dict[str, Any]]:
    """Check conditions on headers: a name and one of `present`, `absent`, `like`."""
    found = []
    for place, one in _conditions(field, value):
        name = one.get("name")
        if not isinstance(name, str) or not TOKEN.match(name) or len(name) > MAX_PATTERN_CHARS:
            raise InvalidRule(f"{place}.name", "must be the name of a header.")
        found.append({"name": name} | _one_test(place, one, "name", ("present", "absent", "like")))
    return found


def json_conditions(field: str, value: Any) -> list[dict[str, Any]]:
    """Check conditions on the payload's JSON: a path and one test of `TESTS`."""
    found = []
    for place, one in _conditions(field, value):
        try:
            parse_path(one.get("path", ""))
        except InvalidPath as error:
            raise InvalidRule(f"{place}.path", error.detail) from None
        found.append({"path": one["path"]} | _one_test(place, one, "path", tuple(TESTS)))
    return found


def _conditions(field: str, value: Any) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CONDITIONS:
        raise InvalidRule(field, f"must be a list of 1 to {MAX_CONDITIONS} conditions.")
    if not all(isinstance(one, dict) for one in value):
        raise InvalidRule(field, "each condition is an object.")
    return [(f"{field}[{place}]", one) for place, one in enumerate(value)]


def _one_test(place: str, one: Mapping[str, Any], subject: str, known: tuple[str, ...]) -> dict[str, Any]:
    names = [name for name in one if name != subject]
    if len(names) != 1 or names[0] not in known:
        raise InvalidRule(place, f"needs {subject} and one of {', '.join(known)}.")
    name = names[0]
    return {name: TESTS[name](f"{place}.{name}", one[name])}


def _scalar(field: str, value: Any) -> Any:
    if isinstance(value, list | dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidRule(field, "must be a text, a number, true, false or null.")
    return _text_value(field, value) if isinstance(value, str) else value


def _text_value(field: str, value: str) -> str:
    """Check a text that is compared as it is."""
    return text_pattern(field, value) if value else value


def _values(field: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_VALUES:
        raise InvalidRule(field, f"must be a list of 1 to {MAX_VALUES} values.")
    return [_scalar(field, one) for one in value]


def _bounds(field: str, value: Any) -> dict[str, Any]:
    return _range(field, value, lambda name, bound: _number(name, bound, -1e308, 1e308))


def _range(field: str, value: Any, check: Check) -> dict[str, Any]:
    if not isinstance(value, dict) or not value or set(value) - {"min", "max"}:
        raise InvalidRule(field, "must be an object with min, max or both.")
    found = {name: check(f"{field}.{name}", bound) for name, bound in value.items() if bound is not None}
    if not found or found.get("min", -math.inf) > found.get("max", math.inf):
        raise InvalidRule(field, "min must not be above max.")
    return found


def _duration(field: str, value: Any, least: int) -> int:
    return int(of_field(field, partial(between(least, MAX_DELAY_MS), value), InvalidRule))


def _whole(field: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRule(field, f"must be a whole number within {low}..{high}.")
    return value


def _number(field: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidRule(field, f"must be a number within {low:g}..{high:g}.")
    return value


TESTS: dict[str, Check] = {
    "present": flag,
    "absent": flag,
    "missing": flag,
    "equals": _scalar,
    "one_of": _values,
    "like": text_pattern,
    "within": _bounds,
    "outside": _bounds,
}
