"""What can be done with a finding: a search for the messages that it is about, and a rule that matches them."""

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
    field, value = condition.field, written(condition.value)
    if condition.operator in (Operator.EXISTS, Operator.MISSING):
        return None
    if field.startswith("payload."):
        if '"' in value or " " in field:
            return None
        compared = "" if condition.operator is Operator.IS else condition.operator
        return "q", f'{field}:"{value}"' if condition.operator is Operator.IS else f"{field}:{compared}{value}"
    is_named = field in _PARAMETERS or field.startswith(("header.", "key."))
    return (field, value) if is_named and condition.operator is Operator.IS and value else None


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
