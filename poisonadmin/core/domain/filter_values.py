"""Values that filters compare with, and how each kind is checked."""

from datetime import datetime, timedelta

from poisonadmin.core.domain.addresses import validate_address, validate_pattern
from poisonadmin.core.domain.errors import PoisonAdminError

MAX_ID = 2**63 - 1
MAX_TERM_CHARS = 1000
# Of one parameter.
MAX_VALUES = 100


class InvalidFilter(PoisonAdminError):
    """Raised when a filter has a parameter that does not exist (`unknown_parameter`) or a value that means nothing
    (`invalid_parameter`): a typo must never mean "everything". `parameter` names it.
    """

    code = "invalid_parameter"

    def __init__(self, parameter: str, detail: str, *, code: str = "invalid_parameter") -> None:
        super().__init__(detail)
        self.parameter = parameter
        self.code = code


def checked_text(name: str, text: str) -> str:
    """Return `text` when the database can look for it."""
    if len(text) > MAX_TERM_CHARS:
        raise InvalidFilter(name, f"{name} is longer than {MAX_TERM_CHARS} characters.")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidFilter(name, f"{name} holds a character that cannot be stored.")
    return text


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


def address_or_pattern(name: str, text: str) -> str:
    """Return `text` when it is an address or a pattern of addresses."""
    try:
        return validate_pattern(text) if "*" in text or "#" in text else validate_address(text)
    except PoisonAdminError as error:
        raise InvalidFilter(name, error.detail) from error
