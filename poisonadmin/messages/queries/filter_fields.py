"""The fields that messages can be looked up by, and how each value is checked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.queries.filter_values import InvalidFilter, address_or_pattern, checked_text, flag, number
from poisonadmin.messages.domain.confirmations import Confirming
from poisonadmin.messages.domain.states import Reason, State


@dataclass(frozen=True)
class Term:
    """One condition: `field` is any of `values` (`operator` =), or compares with the only one; `negated`: not so.

    `name` is the header's for `header`, the key's for `key`.
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


def confirming(name: str, text: str) -> Confirming:
    """Return how the consumer's confirmation stands, as `text` says."""
    try:
        return Confirming(text.lower())
    except ValueError:
        raise InvalidFilter(name, f"{text[:40]!r} is none of {', '.join(Confirming)}.") from None


HEADER = "header."
KEY = "key."
MOMENTS = {
    "received_after": ("received_at", ">="),
    "received_before": ("received_at", "<"),
    "failed_after": ("failed_at", ">="),
    "failed_before": ("failed_at", "<"),
}
FIELDS: dict[str, Callable[[str, str], Any]] = {
    "state": state,
    "address": address_or_pattern,
    "group": number,
    "reason": reason,
    "candidate": flag,
    "confirmation": confirming,
    "error": checked_text,
    "conversation_id": checked_text,
    "message_id": checked_text,
}
