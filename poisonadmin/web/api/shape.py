"""A frozen dataclass as JSON: how it is written, and the OpenAPI schema that says so, from the same type hints.

Ids are strings (a browser's numbers end at 2^53), times RFC 3339 in UTC.
"""

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from poisonadmin.policies.domain.retry_limits import Breaker

JsonSchema = dict[str, Any]
Convert = Callable[[Any], Any]

ID: JsonSchema = {"type": "string", "pattern": "^[0-9]{1,19}$", "example": "1042"}
_PLAIN: dict[Any, JsonSchema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


@dataclass(frozen=True)
class _Member:
    name: str
    schema: JsonSchema
    convert: Convert


class Shape:
    """The JSON object that a dataclass is shown as; `name` is its component's name in the OpenAPI document.

    `leave_out` names fields that are not shown, `also` attributes that are no fields, `kinds` better types than the
    hints have, or the texts that a field may hold.
    """

    def __init__(
        self,
        name: str,
        row: type,
        *,
        leave_out: Collection[str] = (),
        also: Mapping[str, Any] | None = None,
        kinds: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.row = row
        self._leave_out = leave_out
        self._also = also or {}
        self._kinds = kinds or {}

    @cached_property
    def _members(self) -> tuple[_Member, ...]:
        hints = get_type_hints(self.row)
        shown = {field.name: hints[field.name] for field in fields(self.row) if field.name not in self._leave_out}
        return tuple(
            _Member(name, *_kind(name, hint)) for name, hint in (shown | dict(self._kinds) | dict(self._also)).items()
        )

    @cached_property
    def schema(self) -> JsonSchema:
        """The OpenAPI schema: every member is always there."""
        return {
            "type": "object",
            "description": " ".join((self.row.__doc__ or "").split()),
            "properties": {member.name: member.schema for member in self._members},
            "required": [member.name for member in self._members],
        }

    def render(self, row: Any) -> dict[str, Any]:
        """Return what `json` can write."""
        return {member.name: member.convert(getattr(row, member.name)) for member in self._members}


def _kind(name: str, hint: Any) -> tuple[JsonSchema, Convert]:
    if isinstance(hint, Shape):
        return hint.schema, hint.render
    if isinstance(hint, tuple) or (isinstance(hint, type) and issubclass(hint, StrEnum)):
        return {"type": "string", "enum": [str(value) for value in hint]}, str
    if is_dataclass(hint) and isinstance(hint, type):
        inner = Shape(hint.__name__, hint)
        return inner.schema, inner.render
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _nullable(name, next(argument for argument in arguments if argument is not type(None)))
    if origin in (list, tuple) or origin is Sequence:
        return _array(name, arguments[0])
    if origin is Literal:
        return {"type": "integer", "enum": list(arguments)}, _as_it_is
    if hint in (dict, Mapping) or origin in (dict, Mapping) or origin is Mapping:
        return _mapping(arguments)
    if hint is int and (name == "id" or name.endswith(("_id", "_ids"))):
        return ID, str
    return dict(_PLAIN[hint]), _as_it_is


def _nullable(name: str, hint: Any) -> tuple[JsonSchema, Convert]:
    schema, convert = _kind(name, hint)
    if "enum" in schema:
        schema = {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "nullable": True}, lambda value: None if value is None else convert(value)


def _array(name: str, hint: Any) -> tuple[JsonSchema, Convert]:
    schema, convert = _kind(name, hint)
    return {"type": "array", "items": schema}, lambda values: [convert(value) for value in values]


def _mapping(arguments: tuple[Any, ...]) -> tuple[JsonSchema, Convert]:
    if not arguments or arguments[1] is Any:
        return {"type": "object", "additionalProperties": True}, dict
    schema, convert = _kind("", arguments[1])
    return (
        {"type": "object", "additionalProperties": schema},
        lambda mapping: {str(key): convert(value) for key, value in mapping.items()},
    )


def _as_it_is(value: Any) -> Any:
    return value


BREAKER = Shape("Breaker", Breaker, also={"left": int, "rule": str, "sentence": str})
