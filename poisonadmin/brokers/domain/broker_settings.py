"""The checks of brokers' settings; each returns the value as it is stored."""

import re

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.settings import InvalidValue
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import InvalidDestination, validate_url

MAX_NAME_BYTES = 255

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_PLACEHOLDER = re.compile(r"\{(original|queue)\}")


def printable(value: object) -> str:
    """Check a name or another printable text."""
    # Unprintable characters are refused with the lone surrogates that UTF-8 cannot hold.
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise InvalidValue("must be a printable text")
    if len(value.encode()) > MAX_NAME_BYTES:
        raise InvalidValue(f"may have at most {MAX_NAME_BYTES} bytes")
    return value


def printable_or_empty(value: object) -> str:
    """Check a printable text that may be empty."""
    return "" if value == "" else printable(value)


def topic(value: object) -> str:
    """Check the name of a topic.

    >>> topic("orders-dlt")
    'orders-dlt'
    """
    name = printable(value)
    if _TOPIC.match(name) is None or name in (".", ".."):
        raise InvalidValue(f"{name!r} is not a topic: letters, digits, dots, underscores and hyphens, at most 249")
    return name


def address_template(value: object) -> str:
    """Check a template of addresses with `{original}` and `{queue}`."""
    template = printable(value)
    try:
        validate_address(_PLACEHOLDER.sub("x", template))
    except InvalidAddress as error:
        raise InvalidValue(error.detail) from None
    if "{" in (rest := _PLACEHOLDER.sub("", template)) or "}" in rest:
        raise InvalidValue("known placeholders are {original} and {queue}")
    return template


def http_url(value: object, guard: NetworkGuard | None = None) -> str:
    """Check an http(s) URL, and the address that is written in it."""
    try:
        return validate_url(value, guard=guard)
    except InvalidDestination as error:
        raise InvalidValue(error.detail.removeprefix("url: ")) from None
