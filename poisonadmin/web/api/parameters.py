"""Query parameters: each is read, checked and documented from one value; whatever is not named is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.http import QueryDict

from poisonadmin.core.queries.filter_values import (
    MAX_VALUES,
    InvalidFilter,
    address_or_pattern,
    checked_text,
    flag,
    moment,
    number,
)
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, MAX_LIMIT
from poisonadmin.web.api.shape import ID, JsonSchema

Parse = Callable[[str, str], Any]


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


def one_of(values: type[StrEnum]) -> Parse:
    """Return a parser that takes one of the enum's values."""

    def parse(name: str, text: str) -> str:
        if text in set(values):
            return text
        raise InvalidFilter(name, f"{name} is one of {', '.join(values)}, not {text[:40]!r}.")

    return parse


def choice(name: str, values: type[StrEnum], about: str = "", *, many: bool = False) -> Parameter:
    """Return a parameter that takes one of the enum's values."""
    return Parameter(name, one_of(values), {"type": "string", "enum": [str(value) for value in values]}, about, many)


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


def pattern(name: str, about: str = "", *, many: bool = True, required: bool = False) -> Parameter:
    """Return a parameter that takes an address or a pattern of addresses."""
    return Parameter(name, address_or_pattern, {"type": "string", "example": "orders.#"}, about, many, required)


LIMIT = Parameter(
    "limit",
    _limit,
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "How many to return.",
)
CURSOR = Parameter("cursor", checked_text, {"type": "string"}, "From `next` or `previous` of another page.")
PAGE = (LIMIT, CURSOR)
