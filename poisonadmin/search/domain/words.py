"""The words that messages are searched by, declared once: what each is called, takes and says.

Parameters of the API, the search box, the form, the filters in force, completion and the table in docs/search.md are
read from `WORDS`. What a word finds, and where, is in `poisonadmin/search/queries/meanings.py`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from poisonadmin.core.domain.filter_values import (
    InvalidFilter,
    address_or_pattern,
    checked_text,
    flag,
    moment,
    number,
)
from poisonadmin.messages.domain.business_keys import shortened
from poisonadmin.messages.domain.states import LABELS, Confirming, Reason, State
from poisonadmin.search.domain.payload_words import PAYLOAD, PAYLOAD_AT, at_path

Comparison = tuple[str, tuple[Any, ...]]
"""An operator, and the values: any of them for `=`, the only one for all others."""
MAX_SPAN = timedelta(days=36_500)
_COMPARED = re.compile(r"(>=|<=|>|<|=)?(\d{1,9})")
_SPAN = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class ValueKind:
    """The values that a word takes: `compare` reads one, given the word's name, the text, and whether that was quoted.

    `examples`: what completion offers. `are_alternatives`: several words of one name in the box are alternatives.
    """

    name: str
    compare: Callable[[str, str, bool], Comparison]
    values: type[StrEnum] | None = None
    examples: tuple[str, ...] = ()
    are_alternatives: bool = True


def _equals(read: Callable[[str, str], Any]) -> Callable[[str, str, bool], Comparison]:
    return lambda name, text, _: ("=", (read(name, text),))


def choice(values: type[StrEnum], labels: Mapping[Any, str] = MappingProxyType({})) -> ValueKind:
    """Return the kind of a word that takes one of the values, or its label, in either case."""
    codes = {text.lower(): value for value in values for text in (value, labels.get(value, value))}
    known = ", ".join(f"{value} ({labels[value]})" if value in labels else value for value in values)

    def read(name: str, text: str) -> StrEnum:
        if (code := codes.get(text.lower())) is None:
            raise InvalidFilter(name, f"{text[:40]!r} is not a {name}; those are {known}.")
        return code

    return ValueKind("choice", _equals(read), values, tuple(values))


def _whole_number(name: str, text: str, _: bool) -> Comparison:
    found = _COMPARED.fullmatch(text)
    if found is None:
        raise InvalidFilter(name, f"{name} are compared with a number, as in {name}:>3.")
    return found[1] or "=", (int(found[2]),)


def _span(name: str, text: str, _: bool) -> Comparison:
    found = _SPAN.fullmatch(text)
    if found is None or timedelta(**{_UNITS[found[2]]: int(found[1])}) > MAX_SPAN:
        raise InvalidFilter(name, f"{name} takes a span, as in {name}:24h (s, m, h, d, w).")
    return "<", (timedelta(**{_UNITS[found[2]]: int(found[1])}),)


TEXT = ValueKind("text", _equals(checked_text))
ADDRESS = ValueKind("address", _equals(address_or_pattern))
ID = ValueKind("id", _equals(number))
FLAG = ValueKind("flag", _equals(flag), examples=("true", "false"))
NUMBER = ValueKind("number", _whole_number, are_alternatives=False)
MOMENT = ValueKind("moment", _equals(moment), are_alternatives=False)
SPAN = ValueKind("span", _span, examples=("1h", "24h", "7d"), are_alternatives=False)
KEY_VALUE = ValueKind("text", _equals(lambda name, text: shortened(checked_text(name, text))))
BYTES = ValueKind("text", _equals(checked_text), are_alternatives=False)
JSON_VALUE = ValueKind("JSON", lambda path, text, is_quoted: at_path(path, text, is_quoted=is_quoted))


@dataclass(frozen=True)
class FormField:
    """A field of the form *More filters*. `unset`: what a list of choices calls none of them."""

    label: str
    placeholder: str = ""
    unset: str = "Any"
    choices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchWord:
    """A word of the search box (`in_box`), a parameter of the API and of pages (`is_parameter`), or both.

    `about` explains it in the API. `label`: what a filter in force is called. `short`: another name in the box.
    `field`, `operator`: what a term of it says, where that is not its name and `=`. `column`: the column of the
    counters that holds its values; empty for a word that is not counted. `is_named`: a name follows, as in
    `header.<name>`.
    """

    name: str
    kind: ValueKind
    about: str = ""
    label: str = ""
    form: FormField | None = None
    short: str = ""
    field: str = ""
    operator: str = ""
    column: str = ""
    in_box: bool = True
    is_parameter: bool = True
    is_named: bool = False

    @property
    def says(self) -> str:
        """The field of its terms."""
        return self.field or self.name

    @property
    def shown(self) -> str:
        """The word as lists of words show it."""
        return {"payload_at": "payload.$.<path>"}.get(self.says, f"{self.name}.<name>" if self.is_named else self.name)


def _box(name: str, kind: ValueKind, says: str = "") -> SearchWord:
    return SearchWord(name, kind, field=says, is_parameter=False)


def _time(name: str, says: str, operator: str) -> SearchWord:
    words = name.replace("_", " ")
    form = FormField(f"{words.capitalize()} (UTC)")
    return SearchWord(name, MOMENT, label=words, form=form, field=says, operator=operator, in_box=False)


WORDS = (
    SearchWord("state", choice(State, LABELS), form=FormField("State"), column="state"),
    SearchWord(
        "address",
        ADDRESS,
        "An address, or a pattern with * (one word) and # (any words).",
        form=FormField("Address", "orders.# or orders.*.created"),
        column="address_id",
    ),
    SearchWord("group", ID, "A failure group.", "failure group", column="group_id"),
    SearchWord("reason", choice(Reason), form=FormField("Reason"), column="reason"),
    SearchWord("candidate", FLAG, "Whether it may have crashed its consumer."),
    SearchWord(
        "held",
        FLAG,
        "Whether it has come due, and its address does not deliver, or a message before it in its ordered conversation"
        " waits for a decision.",
    ),
    SearchWord("confirmation", choice(Confirming), "", "consumer confirmation", FormField("Consumer confirmation")),
    SearchWord(
        "original_address",
        ADDRESS,
        "Where it failed, of a message that was moved since; an address or a pattern.",
        "original address",
        column="original_address_id",
    ),
    SearchWord(
        "error",
        TEXT,
        "Part of its failure group's title, class or cause, or a phrase of its latest failure's message.",
        form=FormField("Error holds", "part of the class, or words of the message’s error"),
    ),
    SearchWord(
        "failure",
        TEXT,
        "Part of its failure group's title, class or cause, or of the message of the group's sample.",
        "failure group holds",
        FormField("Failure group holds", "part of its title, class or cause"),
    ),
    SearchWord(
        "group_owner",
        TEXT,
        "The name of the account that owns its failure group.",
        "owner of the failure group",
        FormField("Owner of the failure group"),
    ),
    SearchWord(
        "group_tag",
        TEXT,
        "A tag of its failure group.",
        "tag of the failure group",
        FormField("Tag of the failure group"),
    ),
    SearchWord(
        "snoozed",
        FLAG,
        "Whether its failure group is snoozed now.",
        "snoozed failure groups",
        FormField("Snoozed failure groups", unset="Shown too", choices={"false": "left out", "true": "only these"}),
    ),
    SearchWord("destination", TEXT, "Where the address that it would be delivered from, or again, delivers to."),
    SearchWord(
        "consumer_version",
        TEXT,
        "What its consumer was when it failed last (`PoisonAdmin-Consumer-Version`).",
        "consumer version",
        short="version",
    ),
    SearchWord("conversation_id", TEXT, label="conversation", form=FormField("Conversation"), short="conversation"),
    SearchWord("message_id", TEXT, label="message id", form=FormField("Producer’s message id"), short="message"),
    SearchWord("owner", TEXT, "The account that cares for it; `none`: those without an owner."),
    SearchWord("tag", TEXT, "A tag of a rule or of a person, as it is written."),
    SearchWord("header", TEXT, is_named=True),
    SearchWord("key", KEY_VALUE, is_named=True),
    _time("received_after", "received_at", ">="),
    _time("received_before", "received_at", "<"),
    _time("failed_after", "failed_at", ">="),
    _time("failed_before", "failed_at", "<"),
    # Counted back from now. `since` is an older name of `received`.
    _box("received", SPAN, "age"),
    _box("since", SPAN, "age"),
    _box("failed", SPAN, "failure_age"),
    _box("attempts", NUMBER),
    _box(PAYLOAD, BYTES),
    _box("payload.$", JSON_VALUE, PAYLOAD_AT),
)
# What headers and business keys are named behind.
HEADER, KEY = "header.", "key."
# What is said of a time, counted back from now.
SPAN_FIELDS = {word.says for word in WORDS if word.kind is SPAN}
# A word of the box without a name.
FREE = "text"


def parameter(name: str) -> SearchWord | None:
    """Return the word of a parameter; None where there is none of this name."""
    return _found(name, {word.name: word for word in WORDS if word.is_parameter})


def word_of_box(name: str) -> SearchWord | None:
    """Return the word of the search box that has this name, or a longer one; None where there is none."""
    if name.startswith("payload.$"):
        return next(word for word in WORDS if word.says == PAYLOAD_AT)
    in_box = {called: word for word in WORDS if word.in_box for called in (word.name, word.short) if called}
    return _found(name, in_box)


def _found(name: str, words: Mapping[str, SearchWord]) -> SearchWord | None:
    prefix, dot, rest = name.partition(".")
    word = words.get(prefix if dot else name)
    return word if word is not None and (word.is_named and bool(rest)) is bool(dot) is word.is_named else None


def shown_words(fields: Collection[str] | None = None, *, in_box: bool | None = None) -> list[str]:
    """Return how the words are written, in order: those whose terms say one of `fields`, those of the box or not.

    >>> shown_words({"age", "key"})
    ['key.<name>', 'received', 'since']
    """
    chosen = [word for word in WORDS if fields is None or word.says in fields]
    return sorted({word.shown for word in chosen if in_box is None or (word.in_box if in_box else word.is_parameter)})


def refusal(what: str, says: str, known: Collection[str]) -> str:
    """Return the sentences that `what` cannot be asked for a field, and what it can be asked for.

    >>> refusal("Archived messages", "owner", {"state"})
    'Archived messages cannot be asked for owner. They can be for state.'
    """
    return f"{what} cannot be asked for {says}. They can be for {', '.join(shown_words(known))}."
