"""Follow-ups of a finding: a search for the messages that it is about, and a rule that matches them.

An alert is a search, too.
"""

import json
from collections.abc import Sequence
from typing import Any

from poisonadmin.comparisons.domain.conditions import FieldCondition, Operator, written

# Fields of messages that are parameters of `GET /messages/`.
_PARAMETERS = ("address", "destination", "consumer_version")


def search_parameter(condition: FieldCondition) -> tuple[str, str] | None:
    """Return the parameter of `GET /messages/` that finds what the condition is about; None where there can be none.

    >>> search_parameter(FieldCondition("header.client-version", Operator.IS, "4.2.0"))
    ('header.client-version', '4.2.0')
    >>> search_parameter(FieldCondition("payload.$.order.total", Operator.AT_LEAST, 1000.0))
    ('q', 'payload.$.order.total:>=1000')
    """
    if condition.field.startswith("payload."):
        word = search_word(condition)
        return None if word is None else ("q", word)
    return (condition.field, written(condition.value)) if _is_named(condition) else None


def _is_named(condition: FieldCondition) -> bool:
    """Return whether the condition is that a field has a value by which messages are found outside of payloads."""
    is_known = condition.field in _PARAMETERS or condition.field.startswith(("header.", "key."))
    return is_known and condition.operator is Operator.IS and bool(condition.value)


def search_word(condition: FieldCondition) -> str | None:
    """Return the word of the search box that finds what the condition is about; None where there can be none.

    A field may have a name that the box does not take for one: whoever uses the word has it parsed.

    >>> search_word(FieldCondition("header.client", Operator.IS, 'the "new" one'))
    'header.client:"the \\\\"new\\\\" one"'
    >>> search_word(FieldCondition("payload.$.customer", Operator.MISSING))
    '!payload.$.customer:*'
    """
    field, operator, value = condition.field, condition.operator, written(condition.value)
    is_inside = field.startswith("payload.")
    if operator in (Operator.EXISTS, Operator.MISSING):
        mark = "!" if operator is Operator.MISSING else ""
        return f"{mark}{field}:*" if is_inside else None
    if operator is not Operator.IS:
        return f"{field}:{operator}{value}" if is_inside else None
    # A backslash before a quotation mark would be read as one that belongs to the text.
    if not (value and (is_inside or _is_named(condition))) or value.endswith("\\") or '\\"' in value:
        return None
    escaped = value.replace('"', '\\"')
    return f'{field}:"{escaped}"'


def rule_match(conditions: Sequence[FieldCondition]) -> dict[str, Any] | None:
    """Return the `match` of a rule before deliveries that holds for what the conditions are about; None where a rule
    cannot say it.

    >>> rule_match([FieldCondition("payload.$.total", Operator.AT_LEAST, 1000.0)])
    {'json': [{'path': '$.total', 'within': {'min': 1000}}]}
    """
    match: dict[str, Any] = {}
    for one in conditions:
        name, _, rest = one.field.partition(".")
        if name == "header" and (test := _header(one)):
            match.setdefault("headers", []).append({"name": rest} | test)
        elif name == "payload":
            match.setdefault("json", []).append({"path": rest} | _json(one))
        elif one.field in ("address", "content_type") and one.operator is Operator.IS and one.field not in match:
            match[one.field] = one.value
        elif one.field == "payload_bytes" and isinstance(one.value, float) and one.value.is_integer():
            low = one.operator is Operator.AT_LEAST
            match.setdefault("size", {}).update({"min": int(one.value)} if low else {"max": int(one.value) - 1})
        else:
            return None
    return match


def _header(one: FieldCondition) -> dict[str, Any] | None:
    if one.operator in (Operator.EXISTS, Operator.MISSING):
        return {"present" if one.operator is Operator.EXISTS else "absent": True}
    value = written(one.value)
    # A wildcard in a value would match more.
    return {"like": value} if one.operator is Operator.IS and value and not set(value) & set("*?\\[") else None


def _json(one: FieldCondition) -> dict[str, Any]:
    if isinstance(one.value, float):
        bound = {"min": int(one.value) if one.value.is_integer() else one.value}
        return {"within" if one.operator is Operator.AT_LEAST else "outside": bound}
    if one.operator is not Operator.IS:
        return {"present" if one.operator is Operator.EXISTS else "absent": True}
    # What was compared is the text of a value; it may have been one, or a number, true, false or null.
    try:
        value = json.loads(str(one.value))
    except ValueError:
        value = one.value
    return {"equals": one.value} if isinstance(value, str | dict | list) else {"one_of": [value, one.value]}
