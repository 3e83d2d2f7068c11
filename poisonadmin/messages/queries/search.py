"""The one search box.

`address:orders.# state:NDLV error:"Timeout" attempts:>3 since:24h !reason:returned customer-77`
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.messages.domain.business_keys import shortened
from poisonadmin.messages.queries.filter_fields import FIELDS, HEADER, KEY, Term

_TOKEN = re.compile(
    r'(?P<negated>!?)(?:(?P<field>[A-Za-z_][\w.\-]*):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]*))(?P<rest>\S*)'
)
_SPACE = re.compile(r"\s*")
_COMPARED = re.compile(r"(>=|<=|>|<|=)?(\d{1,9})")
_SPAN = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHORT = {"conversation": "conversation_id", "message": "message_id"}
MAX_TOKENS = 40
MAX_SPAN = timedelta(days=36_500)


@dataclass(frozen=True)
class Token:
    """One word of the box. `field` None: free text. `text` is the word as typed, for error messages."""

    negated: bool
    field: str | None
    value: str
    text: str


def parse_search(text: str) -> tuple[Term, ...]:
    """Return the terms of a search; words of one field are alternatives, all else must hold together.

    Words without a field are looked for in message id, conversation id, business keys, error and
    address. A word that is not
    understood raises InvalidFilter naming the word; quotes make any text a free word.

    >>> [(term.field, term.operator, term.values) for term in parse_search("attempts:>3 customer-77")]
    [('attempts', '>', (3,)), ('text', '=', ('customer-77',))]
    """
    alternatives: dict[tuple[str, bool, str], Term] = {}
    single: list[Term] = []
    for token in _tokens(text):
        term = _term(token)
        if term.field in {"text", "attempts", "age"}:
            single.append(term)
            continue
        key = (term.field, term.negated, term.name)
        earlier = alternatives.get(key)
        alternatives[key] = Term(
            term.field, (*(earlier.values if earlier else ()), *term.values), "=", term.negated, term.name
        )
    return (*alternatives.values(), *single)


def _tokens(text: str) -> Iterator[Token]:
    at, count = 0, 0
    while (at := _skip_space(text, at)) < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found["rest"] or not found[0]:
            raise InvalidFilter(
                "q", f"A quotation mark is not closed or stands inside a word, at {text[at : at + 40]!r}."
            )
        if (count := count + 1) > MAX_TOKENS:
            raise InvalidFilter("q", f"A search has at most {MAX_TOKENS} words.")
        value = found["quoted"] if found["quoted"] is not None else found["plain"]
        if not value:
            raise InvalidFilter("q", f"{found[0]!r} has no value.")
        yield Token(bool(found["negated"]), found["field"], value, found[0])
        at = found.end()


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _term(token: Token) -> Term:
    field = _SHORT.get(token.field or "", token.field)
    if field is None:
        return Term("text", (token.value,), negated=token.negated)
    if field == "attempts":
        return _attempts(token)
    if field == "since":
        return _since(token)
    if field.startswith(HEADER) and len(field) > len(HEADER):
        return Term("header", (token.value,), negated=token.negated, name=field.removeprefix(HEADER))
    if field.startswith(KEY) and len(field) > len(KEY):
        return Term("key", (shortened(token.value),), negated=token.negated, name=field.removeprefix(KEY))
    if field not in FIELDS:
        raise InvalidFilter(
            "q",
            f"{token.text!r}: there is no field {field!r}. Fields are "
            f"{', '.join(sorted({*FIELDS, 'attempts', 'since', 'header.<name>', 'key.<name>'}))}; "
            "put quotation marks around a text that holds a colon.",
        )
    try:
        return Term(field, (FIELDS[field](field, token.value),), negated=token.negated)
    except InvalidFilter as error:
        raise InvalidFilter("q", f"{token.text!r}: {error.detail}") from error


def _attempts(token: Token) -> Term:
    found = _COMPARED.fullmatch(token.value)
    if found is None:
        raise InvalidFilter("q", f"{token.text!r}: attempts are compared with a number, as in attempts:>3.")
    return Term("attempts", (int(found[2]),), found[1] or "=", token.negated)


def _since(token: Token) -> Term:
    found = _SPAN.fullmatch(token.value)
    if found is None or timedelta(**{_UNITS[found[2]]: int(found[1])}) > MAX_SPAN:
        raise InvalidFilter("q", f"{token.text!r}: since takes a span, as in since:24h (s, m, h, d, w).")
    return Term("age", (timedelta(**{_UNITS[found[2]]: int(found[1])}),), "<", token.negated)
