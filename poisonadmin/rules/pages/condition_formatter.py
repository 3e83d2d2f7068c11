"""Conditions of rules as lines of text, as a person types them and as pages show them.

`$.amount outside 0..`, `$.kind one_of ["a", "b"]`, `$.employee.id missing`, `X-Kind like push*`, `X-Trace absent`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from poisonadmin.rules.domain.fields import InvalidRule

_JSON_LINE = re.compile(r"(\$.*?)\s+(present|absent|missing|equals|one_of|like|within|outside)(?:\s+(.*))?", re.DOTALL)
_HEADER_LINE = re.compile(r"(\S+)\s+(present|absent|like)(?:\s+(.*))?", re.DOTALL)
_RANGE = re.compile(r"\s*(-?[0-9.eE+-]*?)\s*\.\.\s*(-?[0-9.eE+-]*)\s*")
_ALONE = {"present", "absent", "missing"}


def json_conditions(text: str) -> list[dict[str, Any]]:
    """Return the conditions, one a line; raise InvalidRule.

    >>> json_conditions("$.amount outside 0..")
    [{'path': '$.amount', 'outside': {'min': 0}}]
    """
    found = []
    for line in _lines(text):
        parts = _JSON_LINE.fullmatch(line)
        if parts is None:
            raise InvalidRule("match.json", f"{line[:80]!r} is no condition: write `$.amount outside 0..`.")
        path, test, value = parts.groups()
        found.append({"path": path, test: _value("match.json", test, (value or "").strip())})
    return found


def header_conditions(text: str) -> list[dict[str, Any]]:
    """Return the conditions, one a line; raise InvalidRule."""
    found = []
    for line in _lines(text):
        parts = _HEADER_LINE.fullmatch(line)
        if parts is None:
            raise InvalidRule("match.headers", f"{line[:80]!r} is no condition: write `X-Kind like push*`.")
        name, test, value = parts.groups()
        found.append({"name": name, test: _value("match.headers", test, (value or "").strip())})
    return found


def bounds(field: str, text: str) -> dict[str, Any]:
    """Return what `1..10`, `1..`, `..10` or `5` says; raise InvalidRule.

    >>> bounds("match.size", "1..10"), bounds("match.size", "5")
    ({'min': 1, 'max': 10}, {'min': 5, 'max': 5})
    """
    parts = _RANGE.fullmatch(text)
    if parts is None:
        number = _number(field, text)
        return {"min": number, "max": number}
    return {name: _number(field, part) for name, part in zip(("min", "max"), parts.groups(), strict=True) if part}


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
    words = {
        "reject": "reject: NDLV",
        "discard": "discard: FAIL",
        "redirect": f"redirect to {action.get('address')}",
        "tag": "tag and deliver",
        "retry": f"retry after {action['delay_ms']} ms" if "delay_ms" in action else f"wait x {action.get('factor')}",
        "park": "park: NDLV",
        "fail": "give up: FAIL",
        "end_conversation": "end the conversation",
    }[do]
    return f"{words}, tagged {', '.join(action['tags'])}" if action.get("tags") else words


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


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
        return int(text) if len(text) < 20 else float(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise InvalidRule(field, f"{text[:40]!r} is no range: write 1..10, 1.., or ..10.") from None
