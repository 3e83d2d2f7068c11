"""The filter of a list of messages, as a URL or the search box says it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.filter_values import MAX_VALUES, InvalidFilter, checked_text
from poisonadmin.search.domain.payload_words import DEEP, PAYLOAD_AT, require_few
from poisonadmin.search.domain.words import FREE, MOMENT, SearchWord, parameter, shown_words, word_of_box

# A path may have names in quotation marks. Inside a quoted text, a backslash before a quotation mark stands for it.
_TOKEN = re.compile(
    r"""(?P<negated>!?)(?:(?P<field>payload\.\$(?:\['[^']+'\]|\["[^"]+"\]|[^\s:"'])*|[A-Za-z_][\w.\-]*):)?"""
    r"""(?:"(?P<quoted>(?:\\"|[^"])*)"|(?P<plain>[^\s"]*))(?P<rest>\S*)"""
)
_SPACE = re.compile(r"\s*")
# Parameters of a page with a list that narrow nothing.
OF_THE_PAGE = {"cursor", "ordering", "since", "mark", "group_by", "sort"}
MAX_TOKENS = 40
# Each is a look into an index of its own for every message.
MAX_NAMED = 20


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
        word = None if token.field is None else _word(token)
        if word is None:
            single.append(Term(FREE, (token.value,), negated=token.negated))
            continue
        term = _term_of_box(token, word)
        if not word.kind.are_alternatives or term.operator != "=":
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


def _word(token: Token) -> SearchWord:
    word = word_of_box(token.field or "")
    if word is None:
        raise InvalidFilter(
            "q",
            f"{token.text!r}: there is no field {token.field!r}. A business key is key.{token.field}, a header "
            f"header.{token.field}. Fields are {', '.join(shown_words(in_box=True))}; "
            "put quotation marks around a text that holds a colon.",
        )
    return word


def _term_of_box(token: Token, word: SearchWord) -> Term:
    name = _name(word, token.field or "")
    try:
        of = name if word.says == PAYLOAD_AT else token.field or ""
        operator, values = word.kind.compare(of, token.value, token.is_quoted)
    except InvalidFilter as error:
        raise InvalidFilter("q", f"{token.text[:100]!r}: {error.detail}") from error
    return Term(word.says, values, operator, token.negated, name)


def _name(word: SearchWord, given: str) -> str:
    """Return the name that is behind the word's own: of a header or a key, or a path."""
    return given.partition(".")[2] if word.is_named or word.says == PAYLOAD_AT else ""


@dataclass(frozen=True)
class MessageFilter:
    """All terms must hold. `params` are the URL parameters that say the same, in order: a permalink."""

    terms: tuple[Term, ...] = ()
    params: tuple[tuple[str, str], ...] = ()

    @property
    def is_deep(self) -> bool:
        """True for words about payloads, which only a search job answers."""
        return any(term.field in DEEP for term in self.terms)


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
        word = _parameter(name)
        if not given:
            continue
        if len(given) > MAX_VALUES:
            raise InvalidFilter(name, f"{name} is given {len(given)} times; {MAX_VALUES} are the most.")
        kept.extend((name, text) for text in given)
        terms.extend(_terms(name, word, given))
    named = [term.name for term in terms if term.name]
    if len(named) > MAX_NAMED:
        raise InvalidFilter(named[-1][:100], f"A filter names {MAX_NAMED} headers and business keys at most.")
    return MessageFilter(tuple(terms), tuple(kept))


def fields_of(params: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the fields that URL parameters ask about, without what they ask: that may name a person.

    >>> fields_of({"state": ["NDLV"], "q": ["payload.$.customer:ann key.order:7 ann"]})
    ['key.order', 'payload_at.$.customer', 'state', 'text']
    """
    return sorted({f"{term.field}.{term.name}" if term.name else term.field for term in parse_filter(params).terms})


def require_values(params: Mapping[str, Sequence[str]]) -> None:
    """Do nothing where every parameter has a value, so that a slip never means everything; raise InvalidFilter."""
    for name, texts in params.items():
        if not texts or "" in texts:
            raise InvalidFilter(name[:100], f"{name[:100]} is empty; leave it out instead.")


def _terms(name: str, word: SearchWord | None, texts: Sequence[str]) -> list[Term]:
    if word is None:
        return [term for text in texts for term in parse_search(checked_text(name, text))]
    if word.kind is MOMENT and len(texts) > 1:
        raise InvalidFilter(name, f"{name} can be given once.")
    values = tuple(value for text in texts for value in word.kind.compare(name, text, False)[1])
    return [Term(word.says, values, word.operator or "=", name=_name(word, name))]


def _parameter(name: str) -> SearchWord | None:
    """Return the word that a parameter is; None for `q`. Raise InvalidFilter."""
    word = parameter(name)
    if word is None and name != "q":
        known = ", ".join(sorted({*shown_words(in_box=False), "q"}))
        raise InvalidFilter(
            name[:100], f"There is no parameter {name[:100]!r}. Known ones are {known}.", code="unknown_parameter"
        )
    checked_text("parameter", name)
    return word
