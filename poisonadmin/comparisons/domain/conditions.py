"""The conditions of findings, and their notation."""

from collections.abc import Mapping
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
