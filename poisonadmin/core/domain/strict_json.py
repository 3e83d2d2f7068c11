"""JSON from outside, read strictly: what one parser would accept and another would change is refused.

Refused are duplicate keys, NaN and Infinity, deep nesting, more values than anybody needs, and numbers that would not
come out as they went in.
"""

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain, zip_longest
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NoReturn, Self

from poisonadmin.core.domain.errors import PoisonAdminError

MAX_NESTING = 100
# A value of a few characters takes a hundred times as much memory, and its checks a microsecond or more each.
MAX_VALUES = 50_000
MAX_NUMBER_CHARS = 1000
# Every decimal of so few characters, without an exponent, survives the way through a double.
EXACT_NUMBER_CHARS = 16
# Stands for a number while other values are written: no text in UTF-8 holds a lone surrogate.
_MARK = "\ud800"
_MARKED = f'"{_MARK}"'

# The next bracket or comma outside of strings, or the end. Possessive: what was passed over is not scanned again.
_MARKS = re.compile(r'(?:"(?:[^"\\]++|\\.)*+"?|[^][{},"]++)*+([][{},]|\Z)', re.DOTALL)


class InvalidJson(PoisonAdminError):
    """Raised when bytes are not the strict JSON asked for; `code` says in which way."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Number(Decimal):
    """A number that is written as it was read: `1.10` stays `1.10`, and no digit is lost."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Return the number that a JSON text is."""
        if len(text) > MAX_NUMBER_CHARS:
            raise InvalidJson("invalid_number", f"A number has more than {MAX_NUMBER_CHARS} characters.")
        try:
            number = super().__new__(cls, text)
        except InvalidOperation:
            raise InvalidJson("invalid_number", f"The number {text[:40]} is too large to be read.") from None
        number.text = text
        return number

    def __deepcopy__(self, memo: object) -> Self:
        """Return the same: a number never changes."""
        return self


def loads(raw: bytes, *, exact: bool = False, keeps_numbers: bool = False, most_values: int = MAX_VALUES) -> Any:
    """Return the value of one JSON text in UTF-8. `exact`: numbers are `Number`s, for `dumps_exact`. `keeps_numbers`:
    those are that Python would write otherwise than they came, such as `1.10`, for `dumps`.

    `most_values`: a text with more commas and opening brackets is refused before it is parsed.
    Errors: `InvalidJson` with code `invalid_utf8`, `invalid_json`, `duplicate_key`, `nesting_too_deep`,
    `too_many_values`, `invalid_number`.

    >>> loads(b'{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson("invalid_utf8", f"Byte {error.start} is not valid UTF-8.") from None
    _refuse_excess(raw, text, most_values)
    try:
        return (_EXACT_DECODER if exact else _KEEPING_DECODER if keeps_numbers else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJson("invalid_json", f"{error.msg} at character {error.pos}.") from None


def dumps(value: object) -> bytes:
    """Return `value` as compact JSON in UTF-8, keys in the order given, each `Number` as it was read.

    Errors: `InvalidJson` with code `invalid_json` (NaN, Infinity, what JSON does not have), `nesting_too_deep`,
    `invalid_unicode` for a lone surrogate.

    >>> dumps({"name": "Zoë", "n": [1, 2, Number("1.10")]}).decode()
    '{"name":"Zoë","n":[1,2,1.10]}'
    """
    numbers: list[str] = []

    def noted(number: object) -> str:
        if not isinstance(number, Number):
            raise TypeError(f"a {type(number).__name__}")
        numbers.append(number.text)
        return _MARK

    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=noted)
    except RecursionError:
        raise InvalidJson("nesting_too_deep", f"JSON is nested more than {MAX_NESTING} deep.") from None
    except (TypeError, ValueError) as error:
        raise InvalidJson("invalid_json", f"Not a JSON value: {error}.") from None
    if numbers:
        # A value that has the mark itself is refused below: it has no number.
        parts = zip_longest(text.split(_MARKED), [*numbers, ""], fillvalue=_MARKED)
        text = "".join(chain.from_iterable(parts))
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidJson("invalid_unicode", "A string holds a lone surrogate, which no UTF-8 text can.") from None
    _refuse_excess(raw, text, len(raw))
    return raw


def dumps_exact(value: Any, *, most_bytes: int, is_ascii: bool = False) -> bytes:
    """Return what `loads` read with `exact` as compact JSON in UTF-8; with `is_ascii` in escapes beyond ASCII.

    A lone surrogate, which only an escape can give, stays one.
    Errors: `InvalidJson` with code `nesting_too_deep`, or `payload_too_large` above `most_bytes`.

    >>> dumps_exact(loads(b'{"price": 1.10, "id": 12345678901234567890.5}', exact=True), most_bytes=100)
    b'{"price":1.10,"id":12345678901234567890.5}'
    """
    written = _Writer(encode_basestring_ascii if is_ascii else encode_basestring, most_bytes)
    written.value(value, 0)
    text = "".join(written.parts)
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        return dumps_exact(value, most_bytes=most_bytes, is_ascii=True)
    written.refuse_above(len(raw))
    return raw


class _Writer:
    """Writes a value piece by piece, and stops where it becomes too long."""

    def __init__(self, quoted: Callable[[str], str], most: int) -> None:
        self.parts: list[str] = []
        self._quoted = quoted
        self._most = most
        self._chars = 0

    def refuse_above(self, size: int) -> None:
        """Raise InvalidJson for what is too long."""
        if size > self._most:
            raise InvalidJson("payload_too_large", f"The JSON has more than {self._most} bytes.")

    def value(self, value: Any, depth: int) -> None:
        """Write a value that stands `depth` deep."""
        if depth > MAX_NESTING:
            raise InvalidJson("nesting_too_deep", f"JSON is nested more than {MAX_NESTING} deep.")
        if isinstance(value, dict):
            opening = "{"
            for key, member in value.items():
                self._add(f"{opening}{self._quoted(key)}:")
                self.value(member, depth + 1)
                opening = ","
            self._add("}" if value else "{}")
        elif isinstance(value, list):
            opening = "["
            for member in value:
                self._add(opening)
                self.value(member, depth + 1)
                opening = ","
            self._add("]" if value else "[]")
        else:
            self._add(self._quoted(value) if isinstance(value, str) else _word(value))

    def _add(self, text: str) -> None:
        self.parts.append(text)
        self._chars += len(text)
        self.refuse_above(self._chars)


def _word(value: Any) -> str:
    return value.text if isinstance(value, Number) else "null" if value is None else "true" if value else "false"


def _refuse_excess(raw: bytes, text: str, most_values: int) -> None:
    # Nearly every text has fewer brackets than the limit, and counting bytes is forty times faster than looking.
    openings = raw.count(b"{") + raw.count(b"[")
    if openings <= MAX_NESTING and openings + raw.count(b",") <= most_values:
        return
    depth = values = 0
    for found in _MARKS.finditer(text):
        mark = found[1]
        if mark in ("]", "}", ""):
            depth -= 1
            if depth <= 0:
                return  # nothing may follow
            continue
        depth += mark in ("[", "{")
        values += 1
        if depth > MAX_NESTING:
            raise InvalidJson("nesting_too_deep", f"JSON is nested more than {MAX_NESTING} deep.")
        if values > most_values:
            raise InvalidJson("too_many_values", f"JSON has more than {most_values} values.")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise InvalidJson("duplicate_key", f"The key {key[:100]!r} is there twice in one object.")
        seen.add(key)
    return members


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_CHARS:
        raise InvalidJson("invalid_number", f"A number has more than {MAX_NUMBER_CHARS} characters.")
    return int(text)


def _fraction(text: str) -> float:
    if len(text) <= EXACT_NUMBER_CHARS and "e" not in text and "E" not in text:
        return float(text)
    if len(text) > MAX_NUMBER_CHARS:
        raise InvalidJson("invalid_number", f"A number has more than {MAX_NUMBER_CHARS} characters.")
    number = float(text)
    if number in (float("inf"), float("-inf")) or Decimal(repr(number)) != Decimal(text):
        detail = f"The number {text[:40]} would be changed by parsing; send this payload as a string or in base64."
        raise InvalidJson("invalid_number", detail)
    return number


def _kept_integer(text: str) -> int | Number:
    return Number(text) if text == "-0" else _integer(text)


def _kept_fraction(text: str) -> float | Number:
    number = float(text)
    return number if repr(number) == text else Number(text)


def _constant(text: str) -> NoReturn:
    raise InvalidJson("invalid_number", f"{text} is not a JSON number.")


_EXACT_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_constant
)
_KEEPING_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_kept_integer, parse_float=_kept_fraction, parse_constant=_constant
)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
