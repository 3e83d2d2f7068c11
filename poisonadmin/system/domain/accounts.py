"""Accounts of people and programs, as administrators configure them."""

import re
from collections.abc import Sequence

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.access import Role
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, validate_pattern
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.settings import InvalidValue, one_of

MAX_ACCOUNT_CHARS = 150
MAX_PATTERNS = 100
MAX_EXPIRY_DAYS = 3650
_NAME = re.compile(rf"[\w.@+-]{{1,{MAX_ACCOUNT_CHARS}}}")
# Names of actors in the audit log that are nobody's account.
RESERVED_NAMES = frozenset({"system", "new"})


class InvalidAccount(InvalidField):
    """Raised when a field of an account is invalid; `field` names what is wrong."""

    code = "invalid_account"


def checked_name(name: str) -> str:
    """Return the name of a new account; raise `InvalidValue`.

    >>> checked_name("ann@example.org")
    'ann@example.org'
    """
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        raise InvalidValue(f"may hold letters, digits and @ . + - _ only, at most {MAX_ACCOUNT_CHARS}")
    if name.lower() in RESERVED_NAMES:
        raise InvalidValue("is reserved")
    return name


def checked_patterns(patterns: Sequence[str]) -> list[str]:
    """Return the patterns, each once; raise `InvalidAddress` or `InvalidValue`."""
    if len(patterns) > MAX_PATTERNS:
        raise InvalidValue(f"may be at most {MAX_PATTERNS}")
    if any("," in pattern for pattern in patterns):
        raise InvalidValue("stand one a line, without commas")
    return list(dict.fromkeys(map(validate_pattern, patterns)))


@settings.configuration
class AccountSettings:
    """An account. `patterns`: the addresses that it is limited to; none: it sees every address."""

    name: str = settings.text("Name", checked_name, most=MAX_ACCOUNT_CHARS, api={"trim_whitespace": False})
    role: str = settings.choice("Role", one_of(Role))
    patterns: list[str] = settings.lines(
        "Addresses",
        checked_patterns,
        default=[],
        most=MAX_PATTERNS,
        each=MAX_ADDRESS_CHARS,
        hint="orders.#",
        note="One pattern a line. Left empty, the account sees every address.",
    )
