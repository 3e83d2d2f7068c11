"""Conditions of rules as lines of text, as a person types them and as pages show them.

`$.amount outside 0..`, `$.kind one_of ["a", "b"]`, `$.employee.id missing`, `X-Kind like push*`, `X-Trace absent`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from poisonadmin.core.domain.durations import written
from poisonadmin.rules.domain.fields import InvalidRule

# Each looks at a character and its neighbours, so that a long line takes no longer than its length.
_JSON_TEST = re.compile(r"(?<=\s)(?:present|absent|missing|equals|one_of|like|within|outside)(?!\S)")
_HEADER_TEST = re.compile(r"(?<=\s)(?:present|absent|like)(?!\S)")
_NUMBER = re.compile(r"[0-9.eE+-]+")
_ALONE = {"present", "absent", "missing"}


def json_conditions(text: str) -> list[dict[str, Any]]:
    """Return the conditions, one a line; raise InvalidRule.

    >>> json_conditions("$.amount outside 0..")
    [{'path': '$.amount', 'outside': {'min': 0}}]
    """
    found = []
    for line in _lines(text):
        path, test, value = _parts(_JSON_TEST, line)
        if not path.startswith("$"):
            raise InvalidRule("match.json", f"{line[:80]!r} is no condition: write `$.amount outside 0..`.")
        found.append({"path": path, test: _value("match.json", test, value)})
    return found


def header_conditions(text: str) -> list[dict[str, Any]]:
    """Return the conditions, one a line; raise InvalidRule."""
    found = []
    for line in _lines(text):
        name, test, value = _parts(_HEADER_TEST, line)
        if len(name.split()) != 1:
            raise InvalidRule("match.headers", f"{line[:80]!r} is no condition: write `X-Kind like push*`.")
        found.append({"name": name, test: _value("match.headers", test, value)})
    return found


def bounds(field: str, text: str) -> dict[str, Any]:
    """Return what `1..10`, `1..`, `..10` or `5` says; raise InvalidRule.

    >>> bounds("match.size", "1..10"), bounds("match.size", "5")
    ({'min': 1, 'max': 10}, {'min': 5, 'max': 5})
    """
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not dots:
        number = _number(field, low)
        return {"min": number, "max": number}
    return {name: _number(field, part) for name, part in (("min", low), ("max", high)) if part}


def range_text(value: Mapping[str, Any]) -> str:
    """Return bounds as they are typed."""
    low, high = value.get("min"), value.get("max")
    if low is not None and low == high:
        return str(low)
    return f"{'' if low is None else low}..{'' if high is None else high}"


def condition_text(one: Mapping[str, Any]) -> str:
    """Return a condition on a header or on the JSON as it is typed.

    >>> condition_text({"path": "$.kind", "equals": "push"})
    '$.kind equals "push"'
    """
    subject = one.get("path") or one.get("name")
    test, value = next((name, value) for name, value in one.items() if name not in ("path", "name"))
    if test in _ALONE:
        return f"{subject} {test}"
    if test in ("within", "outside"):
        return f"{subject} {test} {range_text(value)}"
    return f"{subject} {test} {value if test == 'like' else json.dumps(value, ensure_ascii=False)}"


def match_lines(match: Mapping[str, Any]) -> list[str]:
    """Return a rule's conditions, one a line; empty where anything matches."""
    lines = []
    for name, value in match.items():
        if name in ("headers", "json"):
            lines += [condition_text(one) for one in value]
        elif name == "violates":
            lines.append("violates a JSON Schema")
        elif name == "not_json":
            lines.append("is not JSON")
        elif isinstance(value, Mapping):
            lines.append(f"{name} {range_text(value)}")
        else:
            lines.append(f"{name} {', '.join(value) if isinstance(value, list) else value}")
    return lines


def action_text(action: Mapping[str, Any]) -> str:
    """Return a rule's action in words."""
    do = action["do"]
    delay = action.get("delay_ms")
    wait = f"wait x {action.get('factor')}" if delay is None else f"retry after {written(delay)}"
    words = {
        "reject": "reject: NDLV",
        "discard": "discard: FAIL",
        "redirect": f"redirect to {action.get('address')}",
        "tag": "tag and deliver",
        "retry": wait,
        "park": "park: NDLV",
        "fail": "give up: FAIL",
        "end_conversation": "end the conversation",
    }[do]
    return f"{words}, tagged {', '.join(action['tags'])}" if action.get("tags") else words


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _parts(tests: re.Pattern[str], line: str) -> tuple[str, str, str]:
    """Return what is tested, the test and its value; nothing is tested where a line names no test."""
    found = tests.search(line)
    return (line[: found.start()].rstrip(), found[0], line[found.end() :].strip()) if found else ("", "", "")


def _value(field: str, test: str, text: str) -> Any:
    if test in _ALONE:
        if text:
            raise InvalidRule(field, f"{test} takes no value.")
        return True
    if test in ("within", "outside"):
        return bounds(field, text)
    if test == "like":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if test == "equals" and text and text[0] not in '"[{':
            return text
        raise InvalidRule(field, f"{text[:80]!r} is no JSON value.") from None


def _number(field: str, text: str) -> float:
    try:
        if _NUMBER.fullmatch(text) is None:
            raise ValueError(text)
        return int(text) if len(text) < 20 and text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise InvalidRule(field, f"{text[:40]!r} is no range: write 1..10, 1.., or ..10.") from None
