"""What a list of messages is narrowed to, as a URL says it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.core.queries.filter_values import MAX_VALUES, InvalidFilter, checked_text, moment
from poisonadmin.messages.domain.business_keys import shortened
from poisonadmin.messages.queries.filter_fields import FIELDS, HEADER, KEY, MOMENTS, Term
from poisonadmin.messages.queries.search import parse_search


@dataclass(frozen=True)
class MessageFilter:
    """All terms must hold. `params` are the URL parameters that say the same, in order: a permalink."""

    terms: tuple[Term, ...] = ()
    params: tuple[tuple[str, str], ...] = ()


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
    return MessageFilter(tuple(terms), tuple(kept))


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
