"""The filter of a list of messages, as a URL says it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from poisonadmin.core.domain.filter_values import (
    MAX_VALUES,
    InvalidFilter,
    address_or_pattern,
    checked_text,
    flag,
    moment,
    number,
)
from poisonadmin.messages.domain.business_keys import shortened
from poisonadmin.messages.domain.states import Confirming, Reason, State
from poisonadmin.search.domain.payload_words import PAYLOAD, PAYLOAD_AT, at_path, require_few

HEADER = "header."
KEY = "key."
MOMENTS = {
    "received_after": ("received_at", ">="),
    "received_before": ("received_at", "<"),
    "failed_after": ("failed_at", ">="),
    "failed_before": ("failed_at", "<"),
}
# A path may have names in quotation marks. Inside a quoted text, a backslash before a quotation mark stands for it.
_TOKEN = re.compile(
    r"""(?P<negated>!?)(?:(?P<field>payload\.\$(?:\['[^']+'\]|\["[^"]+"\]|[^\s:"'])*|[A-Za-z_][\w.\-]*):)?"""
    r"""(?:"(?P<quoted>(?:\\"|[^"])*)"|(?P<plain>[^\s"]*))(?P<rest>\S*)"""
)
_SPACE = re.compile(r"\s*")
_COMPARED = re.compile(r"(>=|<=|>|<|=)?(\d{1,9})")
_SPAN = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHORT = {"conversation": "conversation_id", "message": "message_id", "version": "consumer_version"}
# Words of the box that take a span, counted back from now. `since` is an older name of `received`.
SPANS = {"received": "age", "since": "age", "failed": "failure_age"}
# Parameters of a page with a list that narrow nothing.
OF_THE_PAGE = {"cursor", "ordering", "since", "mark", "group_by", "sort"}
_OTHERS = ("attempts", "header.<name>", "key.<name>", "payload", "payload.$.<path>")
MAX_TOKENS = 40
# Each is a look into an index of its own for every message.
MAX_NAMED = 20
MAX_SPAN = timedelta(days=36_500)


@dataclass(frozen=True)
class Term:
    """One condition: `field` is any of `values` (`operator` =), or compares with the only one; `negated`: not so.

    `name` is the header's for `header`, the key's for `key`, and the JSON path for `payload_at`, whose operator may be
    `present` too.
    """

    field: str
    values: tuple[Any, ...]
    operator: str = "="
    negated: bool = False
    name: str = ""


def state(name: str, text: str) -> State:
    """Return the state that `text` names, in either case."""
    try:
        return State(text.upper())
    except ValueError:
        raise InvalidFilter(name, f"{text[:40]!r} is not a state; those are {', '.join(State)}.") from None


def reason(name: str, text: str) -> Reason:
    """Return the reason code that `text` is."""
    try:
        return Reason(text.lower())
    except ValueError:
        raise InvalidFilter(name, f"{text[:40]!r} is not a reason; those are {', '.join(Reason)}.") from None


def _confirming(name: str, text: str) -> Confirming:
    """Return how the consumer's confirmation stands, as `text` says."""
    try:
        return Confirming(text.lower())
    except ValueError:
        raise InvalidFilter(name, f"{text[:40]!r} is none of {', '.join(Confirming)}.") from None


FIELDS: dict[str, Callable[[str, str], Any]] = {
    "state": state,
    "address": address_or_pattern,
    "original_address": address_or_pattern,
    "group": number,
    "failure": checked_text,
    "group_owner": checked_text,
    "group_tag": checked_text,
    "snoozed": flag,
    "reason": reason,
    "candidate": flag,
    "confirmation": _confirming,
    "error": checked_text,
    "destination": checked_text,
    "consumer_version": checked_text,
    "conversation_id": checked_text,
    "message_id": checked_text,
    "owner": checked_text,
    "tag": checked_text,
}


@dataclass(frozen=True)
class Token:
    """One word of the box. `field` None: free text. `text` is the word as typed, for error messages."""

    negated: bool
    field: str | None
    value: str
    text: str
    is_quoted: bool


def parse_search(text: str) -> tuple[Term, ...]:
    """Return the terms of a search; words of one field are alternatives, all else must hold together.

    Words without a field are looked for in message id, conversation id, business keys, error and address. A word that
    is not understood raises InvalidFilter naming the word; quotes make any text a free word.

    >>> [(term.field, term.operator, term.values) for term in parse_search("attempts:>3 customer-77")]
    [('attempts', '>', (3,)), ('text', '=', ('customer-77',))]
    """
    alternatives: dict[tuple[str, bool, str], Term] = {}
    single: list[Term] = []
    for token in _tokens(text):
        term = _word_term(token)
        if term.field in {"text", "attempts", PAYLOAD, *SPANS.values()} or term.operator != "=":
            single.append(term)
            continue
        key = (term.field, term.negated, term.name)
        earlier = alternatives.get(key)
        alternatives[key] = Term(
            term.field, (*(earlier.values if earlier else ()), *term.values), "=", term.negated, term.name
        )
    require_few([term.field for term in (*alternatives.values(), *single)])
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
        quoted = found["quoted"]
        value = found["plain"] if quoted is None else quoted.replace('\\"', '"')
        if not value:
            raise InvalidFilter("q", f"{found[0]!r} has no value.")
        yield Token(bool(found["negated"]), found["field"], value, found[0], quoted is not None)
        at = found.end()


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _word_term(token: Token) -> Term:
    field = _SHORT.get(token.field or "", token.field)
    if field is None:
        return Term("text", (token.value,), negated=token.negated)
    if field == "attempts":
        return _attempts_term(token)
    if field in SPANS:
        return _span_term(token, SPANS[field])
    if field.startswith(HEADER) and len(field) > len(HEADER):
        return Term("header", (token.value,), negated=token.negated, name=field.removeprefix(HEADER))
    if field.startswith(KEY) and len(field) > len(KEY):
        return Term("key", (shortened(token.value),), negated=token.negated, name=field.removeprefix(KEY))
    if field == PAYLOAD:
        return Term(PAYLOAD, (token.value,), negated=token.negated)
    if field.startswith(f"{PAYLOAD}.$"):
        return _payload_term(token, field.removeprefix(f"{PAYLOAD}."))
    if field not in FIELDS:
        raise InvalidFilter(
            "q",
            f"{token.text!r}: there is no field {field!r}. Fields are "
            f"{', '.join(sorted({*FIELDS, *SPANS, *_OTHERS}))}; "
            "put quotation marks around a text that holds a colon.",
        )
    try:
        return Term(field, (FIELDS[field](field, token.value),), negated=token.negated)
    except InvalidFilter as error:
        raise InvalidFilter("q", f"{token.text!r}: {error.detail}") from error


def _payload_term(token: Token, path: str) -> Term:
    try:
        operator, values = at_path(path, token.value, is_quoted=token.is_quoted)
    except InvalidFilter as error:
        raise InvalidFilter("q", f"{token.text[:100]!r}: {error.detail}") from error
    return Term(PAYLOAD_AT, values, operator, token.negated, path)


def _attempts_term(token: Token) -> Term:
    found = _COMPARED.fullmatch(token.value)
    if found is None:
        raise InvalidFilter("q", f"{token.text!r}: attempts are compared with a number, as in attempts:>3.")
    return Term("attempts", (int(found[2]),), found[1] or "=", token.negated)


def _span_term(token: Token, field: str) -> Term:
    found = _SPAN.fullmatch(token.value)
    if found is None or timedelta(**{_UNITS[found[2]]: int(found[1])}) > MAX_SPAN:
        name = token.field
        raise InvalidFilter("q", f"{token.text!r}: {name} takes a span, as in {name}:24h (s, m, h, d, w).")
    return Term(field, (timedelta(**{_UNITS[found[2]]: int(found[1])}),), "<", token.negated)


@dataclass(frozen=True)
class MessageFilter:
    """All terms must hold. `params` are the URL parameters that say the same, in order: a permalink."""

    terms: tuple[Term, ...] = ()
    params: tuple[tuple[str, str], ...] = ()


def narrowing(params: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Return the parameters of a page with a list that narrow the list; an empty field of a form narrows nothing."""
    found = {name: [str(text) for text in texts if text != ""] for name, texts in params.items()}
    return {name: texts for name, texts in found.items() if texts and name not in OF_THE_PAGE}


def parse_filter(params: Mapping[str, Sequence[str]]) -> MessageFilter:
    """Return the filter that URL parameters describe; empty values are as if absent.

    Raise InvalidFilter: `unknown_parameter` or `invalid_parameter`.

    >>> parse_filter({"state": ["NDLV", "FAIL"]}).terms
    (Term(field='state', values=(<State.NDLV: 'NDLV'>, <State.FAIL: 'FAIL'>), operator='=', negated=False, name=''),)
    """
    terms: list[Term] = []
    kept: list[tuple[str, str]] = []
    for name, texts in params.items():
        given = [text for text in texts if text != ""]
        _require_known(name)
        if not given:
            continue
        if len(given) > MAX_VALUES:
            raise InvalidFilter(name, f"{name} is given {len(given)} times; {MAX_VALUES} are the most.")
        kept.extend((name, text) for text in given)
        terms.extend(_terms(name, given))
    named = [term.name for term in terms if term.name]
    if len(named) > MAX_NAMED:
        raise InvalidFilter(named[-1][:100], f"A filter names {MAX_NAMED} headers and business keys at most.")
    return MessageFilter(tuple(terms), tuple(kept))


def require_values(params: Mapping[str, Sequence[str]]) -> None:
    """Do nothing where every parameter has a value, so that a slip never means everything; raise InvalidFilter."""
    for name, texts in params.items():
        if not texts or "" in texts:
            raise InvalidFilter(name[:100], f"{name[:100]} is empty; leave it out instead.")


def _terms(name: str, texts: Sequence[str]) -> list[Term]:
    if name == "q":
        return [term for text in texts for term in parse_search(checked_text(name, text))]
    if name.startswith(HEADER):
        return [Term("header", tuple(checked_text(name, text) for text in texts), name=name.removeprefix(HEADER))]
    if name.startswith(KEY):
        return [Term("key", tuple(shortened(checked_text(name, text)) for text in texts), name=name.removeprefix(KEY))]
    if name in MOMENTS:
        if len(texts) > 1:
            raise InvalidFilter(name, f"{name} can be given once.")
        field, operator = MOMENTS[name]
        return [Term(field, (moment(name, texts[0]),), operator)]
    return [Term(name, tuple(FIELDS[name](name, text) for text in texts))]


def _require_known(name: str) -> None:
    is_named = any(name.startswith(prefix) and len(name) > len(prefix) for prefix in (HEADER, KEY))
    if name in FIELDS or name in MOMENTS or name == "q" or is_named:
        checked_text("parameter", name)
        return
    known = ", ".join(sorted({*FIELDS, *MOMENTS, "q", "header.<name>", "key.<name>"}))
    raise InvalidFilter(
        name[:100], f"There is no parameter {name[:100]!r}. Known ones are {known}.", code="unknown_parameter"
    )
