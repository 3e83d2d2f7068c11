"""The fields that messages can be looked up by, and how each value is checked."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from poisonadmin.domain.addresses import validate_address, validate_pattern
from poisonadmin.domain.errors import PoisonAdminError
from poisonadmin.domain.states import Reason, State
from poisonadmin.queries.paging import MAX_ID

MAX_TERM_CHARS = 1000


class InvalidFilter(PoisonAdminError):
    """Raised when a filter has a parameter that does not exist (`unknown_parameter`) or a value that means nothing
    (`invalid_parameter`): a typo must never mean "everything". `parameter` names it.
    """

    code = "invalid_parameter"

    def __init__(self, parameter: str, detail: str, *, code: str = "invalid_parameter") -> None:
        super().__init__(detail)
        self.parameter = parameter
        self.code = code


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


def checked_text(name: str, text: str) -> str:
    """Return `text` when the database can look for it."""
    if len(text) > MAX_TERM_CHARS:
        raise InvalidFilter(name, f"{name} is longer than {MAX_TERM_CHARS} characters.")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidFilter(name, f"{name} holds a character that cannot be stored.")
    return text


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


def address(name: str, text: str) -> str:
    """Return `text` when it is an address or a pattern of addresses."""
    try:
        return validate_pattern(text) if "*" in text or "#" in text else validate_address(text)
    except PoisonAdminError as error:
        raise InvalidFilter(name, error.detail) from error


class Confirming(StrEnum):
    """How a delivered message stands with the consumer behind its broker; `unanswered`: its word is overdue."""

    AWAITED = "awaited"
    UNANSWERED = "unanswered"
    CONFIRMED = "confirmed"


def confirming(name: str, text: str) -> Confirming:
    """Return how the consumer's word stands, as `text` says."""
    try:
        return Confirming(text.lower())
    except ValueError:
        raise InvalidFilter(name, f"{text[:40]!r} is none of {', '.join(Confirming)}.") from None


def number(name: str, text: str) -> int:
    """Return the id that `text` is: decimal digits, within the database's range."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_ID:
        return int(text)
    raise InvalidFilter(name, f"{text[:40]!r} is not an id.")


def flag(name: str, text: str) -> bool:
    """Return what `true` or `false` says."""
    if text.lower() in {"true", "1", "yes"}:
        return True
    if text.lower() in {"false", "0", "no"}:
        return False
    raise InvalidFilter(name, f"{name} is true or false, not {text[:40]!r}.")


def moment(name: str, text: str) -> datetime:
    """Return the time that `text` says in RFC 3339; one without an offset is refused, it could mean three things."""
    try:
        # In a URL an unescaped + reads as a space.
        at = datetime.fromisoformat(text.replace(" ", "+") if text.count(" ") == 1 and "T" in text else text)
    except ValueError:
        raise InvalidFilter(name, f"{text[:60]!r} is not a time such as 2026-01-31T12:00:00Z.") from None
    if at.tzinfo is None or at.utcoffset() is None:
        raise InvalidFilter(name, f"{name} needs an offset from UTC, such as 2026-01-31T12:00:00Z.")
    if not 2 <= at.year <= 9998 or abs(at.utcoffset() or timedelta()) > timedelta(hours=15):
        raise InvalidFilter(name, f"{text[:60]!r} is outside the times that can be looked for.")
    return at


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
    "address": address,
    "group": number,
    "reason": reason,
    "candidate": flag,
    "confirmation": confirming,
    "error": checked_text,
    "conversation_id": checked_text,
    "message_id": checked_text,
}
