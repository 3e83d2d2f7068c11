"""The contract of a view's method: input, answers, permission. Checks and the OpenAPI document read it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

from django.http import QueryDict
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.filter_values import (
    MAX_VALUES,
    InvalidFilter,
    address_or_pattern,
    checked_text,
    flag,
    moment,
    number,
)
from poisonadmin.core.domain.settings import REQUIRED, InputKind, Setting
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, MAX_LIMIT
from poisonadmin.web.api.shape import ID, JsonSchema, Shape

Parse = Callable[[str, str], Any]
MAX_REASON_CHARS = 2000
_DECIMAL = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")
Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True)
class Parameter:
    """`many`: may be repeated, and is read as a tuple."""

    name: str
    parse: Parse
    schema: JsonSchema
    about: str = ""
    many: bool = False
    required: bool = False


def read_query(given: QueryDict, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the value of each parameter by name; absent ones are None, or () where they may be repeated.

    Raise InvalidFilter: `unknown_parameter`, `invalid_parameter`.
    """
    known = {parameter.name: parameter for parameter in parameters}
    refuse_unknown(given, known)
    return read_values({name: given.getlist(name) for name in known}, known)


def read_values(given: Mapping[str, list[str]], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the value of each parameter by name. Raise InvalidFilter `invalid_parameter`."""
    refuse_empty(given)
    return {name: _value(parameter, given[name]) for name, parameter in parameters.items()}


def refuse_empty(given: Mapping[str, Sequence[str]]) -> None:
    """Do nothing when no value is empty; raise InvalidFilter naming the parameter otherwise."""
    for name, texts in given.items():
        if "" in texts:
            raise InvalidFilter(name[:100], f"{name[:100]} is empty; leave it out instead.")


def refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Do nothing when every parameter is known; raise InvalidFilter naming the first that is not."""
    for name in given:
        if name not in known:
            names = f"Known ones are {', '.join(sorted(known))}." if known else "This takes none."
            raise InvalidFilter(name[:100], f"There is no parameter {name[:100]!r}. {names}", code="unknown_parameter")


def _value(parameter: Parameter, texts: list[str]) -> Any:
    name = parameter.name
    if not texts:
        if parameter.required:
            raise InvalidFilter(name, f"{name} is required.")
        return () if parameter.many else None
    if len(texts) > (MAX_VALUES if parameter.many else 1):
        raise InvalidFilter(name, f"{name} is given {len(texts)} times.")
    values = tuple(parameter.parse(name, checked_text(name, text)) for text in texts)
    return values if parameter.many else values[0]


def _limit(name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= MAX_LIMIT:
        return int(text)
    raise InvalidFilter(name, f"{name} is a whole number from 1 to {MAX_LIMIT}, not {text[:40]!r}.")


def _one_of(values: Collection[str]) -> Parse:
    """Return a parser that takes one of these values."""

    def parse(name: str, text: str) -> str:
        if text in values:
            return text
        raise InvalidFilter(name, f"{name} is one of {', '.join(values)}, not {text[:40]!r}.")

    return parse


def choice(name: str, values: type[StrEnum], about: str = "", *, many: bool = False) -> Parameter:
    """Return a parameter that takes one of the enum's values."""
    return Parameter(name, _one_of([*map(str, values)]), {"type": "string", "enum": [*map(str, values)]}, about, many)


def text(name: str, about: str = "", *, many: bool = False) -> Parameter:
    """Return a parameter that takes any text."""
    return Parameter(name, checked_text, {"type": "string", "minLength": 1, "maxLength": 1000}, about, many)


def time(name: str, about: str = "") -> Parameter:
    """Return a parameter that takes a time."""
    return Parameter(name, moment, {"type": "string", "format": "date-time"}, about)


def identifier(name: str, about: str = "", *, many: bool = False) -> Parameter:
    """Return a parameter that takes an id."""
    return Parameter(name, number, ID, about, many)


def boolean(name: str, about: str = "") -> Parameter:
    """Return a parameter that takes true or false."""
    return Parameter(name, flag, {"type": "boolean"}, about)


def decimal(name: str, about: str = "") -> Parameter:
    """Return a parameter that takes a number."""

    def parse(name: str, text: str) -> float:
        if _DECIMAL.fullmatch(text):
            return float(text)
        raise InvalidFilter(name, f"{name} is a number such as 0.5, not {text[:40]!r}.")

    return Parameter(name, parse, {"type": "number"}, about)


def pattern(name: str, about: str = "", *, many: bool = True, required: bool = False) -> Parameter:
    """Return a parameter that takes an address or a pattern of addresses."""
    return Parameter(name, address_or_pattern, {"type": "string", "example": "orders.#"}, about, many, required)


def ordering(orderings: Collection[str], about: str) -> Parameter:
    """Return the parameter that says what a list is ordered by."""
    return Parameter("ordering", _one_of(orderings), {"type": "string", "enum": list(orderings)}, about)


LIMIT = Parameter(
    "limit",
    _limit,
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "How many to return.",
)
CURSOR = Parameter("cursor", checked_text, {"type": "string"}, "From `next` or `previous` of another page.")
PAGE = (LIMIT, CURSOR)


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields that it does not have."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked fields."""
        if isinstance(data, Mapping) and (unknown := [str(name)[:100] for name in data if name not in self.fields]):
            raise serializers.ValidationError({name: ["There is no such field."] for name in unknown}, "unknown_field")
        return super().to_internal_value(data)


class Text(serializers.CharField):
    """A string; a number or a boolean is not taken for one."""

    def to_internal_value(self, data: Any) -> str:
        """Return the text."""
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class _Parsed(serializers.Field[Any, Any, Any, Any]):
    """A text that `parse` reads, as it reads a parameter."""

    parse: ClassVar[Any]

    def to_internal_value(self, data: Any) -> Any:
        """Return the value."""
        try:
            return type(self).parse(self.field_name or "", data if isinstance(data, str) else "")
        except InvalidFilter as error:
            raise serializers.ValidationError(error.detail, error.code) from error


@extend_schema_field({"type": "string", "format": "date-time"})
class Moment(_Parsed):
    """A time with its offset from UTC, as an aware datetime."""

    parse = staticmethod(moment)


@extend_schema_field(ID)
class Identifier(_Parsed):
    """An id, written as a string of digits."""

    parse = staticmethod(number)


class JsonObject(serializers.DictField):
    """A JSON object whose members somebody else checks."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the object as it is."""
        if not isinstance(data, dict):
            self.fail("not_a_dict", input_type=type(data).__name__)
        return data


class FilterField(serializers.DictField):
    """Parameters of `GET /messages/`, each a text or a list of texts."""

    def to_internal_value(self, data: Any) -> dict[str, list[str]]:
        """Return each parameter's texts."""
        if not isinstance(data, Mapping):
            self.fail("not_a_dict", input_type=type(data).__name__)
        found: dict[str, list[str]] = {}
        for name, given in data.items():
            texts = [given] if isinstance(given, str) else given
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise serializers.ValidationError({str(name)[:100]: ["Must be a text or a list of texts."]}, "invalid")
            found[str(name)] = texts
        return found


class ReasonInput(StrictSerializer):
    """Why; it is kept in the history and in the audit log."""

    reason = Text(max_length=MAX_REASON_CHARS)


class OptionalReasonInput(StrictSerializer):
    """Why, where it need not be said; it is kept in the audit log."""

    reason = Text(max_length=MAX_REASON_CHARS, required=False, default="")


@dataclass(frozen=True)
class Paged:
    """A page of `shape`s, or a list that has one page only."""

    shape: Shape


@dataclass(frozen=True)
class Raw:
    """Bytes of some media type. `schema` describes one event, where they are a stream of events."""

    media_type: str = "application/octet-stream"
    schema: JsonSchema | None = None


Given = Shape | Paged | Raw | JsonSchema | None


@dataclass(frozen=True)
class Contract:
    """`acts`: Idempotency-Key is honoured. `is_streamed`: the body is read as a stream and committed as it goes.

    `or_needs`: another permission that does as well.
    `decides`: If-Match is honoured. `raw_body`: the handler reads the body itself; media type -> schema.
    `checks_query` False: the handler refuses unknown parameters itself.
    """

    needs: Permission
    tag: str
    gives: Mapping[int, Given]
    query: tuple[Parameter, ...] = ()
    body: type[StrictSerializer] | None = None
    raw_body: Mapping[str, JsonSchema] = field(default_factory=dict)
    acts: bool = False
    decides: bool = False
    is_streamed: bool = False
    checks_query: bool = True
    or_needs: Permission | None = None

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions of which the caller needs one."""
        return (self.needs,) if self.or_needs is None else (self.needs, self.or_needs)


def contract(needs: Permission, tag: str, gives: Mapping[int, Given], **more: Any) -> Callable[[Handler], Handler]:
    """Attach a contract to a handler, and let the view carry it out (`ApiView.carry_out`).

    The handler takes what the path names.
    """

    def attach(handler: Handler) -> Handler:
        @wraps(handler)
        def carried_out(view: Any, request: Any, **path: Any) -> Any:
            return view.carry_out(lambda: handler(view, **path))

        carried_out.contract = Contract(needs, tag, gives, **more)  # type: ignore[attr-defined]
        return cast("Handler", carried_out)

    return attach


def contract_of(view: Any, method: str | None) -> Contract | None:
    """Return the contract of the view's handler for an HTTP method; None where it has none."""
    name = (method or "").lower()
    handler = getattr(view, "get" if name == "head" else name, None)
    found = getattr(handler, "contract", None)
    return found if isinstance(found, Contract) else None


class SettingsInput(StrictSerializer):
    """Takes declared settings. A field that is an attribute of the class replaces the declared one."""

    settings: ClassVar[Mapping[str, Setting]] = {}

    def get_fields(self) -> dict[str, Any]:
        """Return the fields of the settings and those of the class."""
        declared = {name: one for name, one in self.settings.items() if one.input is not InputKind.OTHER}
        return {name: field_of(setting) for name, setting in declared.items()} | super().get_fields()


def field_of(setting: Setting) -> serializers.Field[Any, Any, Any, Any]:
    """Return the field of a setting."""
    how: dict[str, Any] = {}
    if setting.default is not REQUIRED:
        default = type(setting.default) if setting.default in ([], {}) else setting.default
        how = {"required": False, "default": default} | ({"allow_null": True} if default is None else {})
    how |= setting.api
    match setting.input:
        case InputKind.SWITCH:
            return serializers.BooleanField(**how)
        case InputKind.NUMBER:
            return serializers.IntegerField(**setting.bounds, **how)
        case InputKind.DECIMAL:
            return serializers.FloatField(**setting.bounds, **how)
        case InputKind.CHOICE:
            return serializers.ChoiceField(choices=[str(value) for value in setting.choices], **how)
        case InputKind.LINES:
            bounds: dict[str, Any] = {"min_length": setting.least, "max_length": setting.most}
            given = {name: bound for name, bound in bounds.items() if bound is not None}
            return serializers.ListField(child=Text(max_length=setting.each), **given, **how)
        case InputKind.PARAMETERS:
            return FilterField(**how)
        case InputKind.TEXT:
            return Text(**({"max_length": setting.most, "allow_blank": setting.default == ""} | how))
        case InputKind.DURATION | InputKind.OTHER:
            raise TypeError(f"{setting.name} is a field of its serializer.")
