"""The conditions of findings, their notation, and their follow-ups: a search, which alerts take too, and a rule."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Operator(StrEnum):
    """The operators that compare a field. EXISTS and MISSING take no value."""

    IS = "="
    AT_LEAST = ">="
    BELOW = "<"
    EXISTS = "exists"
    MISSING = "missing"


@dataclass(frozen=True)
class FieldCondition:
    """A condition on a field, which is named as in the search: `header.x`, `key.x`, `payload.$.x`, `address`.

    `value`: a text for IS, a number for AT_LEAST and BELOW, else None.
    """

    field: str
    operator: Operator
    value: str | float | None = None

    @property
    def text(self) -> str:
        """The condition as a person writes it.

        >>> FieldCondition("payload.$.order.total", Operator.AT_LEAST, 1000.0).text
        'payload.$.order.total >= 1000'
        >>> FieldCondition("key.customer", Operator.MISSING).text
        'no key.customer'
        """
        if self.operator is Operator.MISSING:
            return f"no {self.field}"
        if self.operator is Operator.EXISTS:
            return f"a {self.field}"
        return f"{self.field} {self.operator} {written(self.value)}"

    @property
    def plainness(self) -> tuple[bool, bool, int, str]:
        """The lower, the sooner it is said where several conditions tell the same: of the envelope, a value, short."""
        return self.field.startswith("payload."), self.operator is not Operator.IS, len(self.text), self.text

    def as_json(self) -> dict[str, Any]:
        """Return the condition as the API gives it."""
        return {"field": self.field, "operator": str(self.operator), "value": self.value}


def condition_from(found: Mapping[str, Any]) -> FieldCondition:
    """Return the condition that `as_json` gave."""
    return FieldCondition(found["field"], Operator(found["operator"]), found["value"])


def written(value: str | float | None) -> str:
    """Return a value as text; a whole number has no decimal point.

    >>> written(0.5), written(250.0), written("eu")
    ('0.5', '250', 'eu')
    """
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)
    return "" if value is None else str(value)


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
