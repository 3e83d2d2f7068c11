"""Settings of brokers and the checks that they share; each check returns the value as it is stored."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import InvalidDestination, validate_url

MAX_NAME_BYTES = 255

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_PLACEHOLDER = re.compile(r"\{(original|queue)\}")


class InvalidValue(ValueError):
    """Raised by a check, which does not know the setting's name; its text says what the value must be."""


Check = Callable[[object, NetworkGuard | None], object]
"""(value, guard) -> the value as it is stored; raises `InvalidValue`. The guard is for checks of URLs."""


class InputKind(StrEnum):
    """The kinds of form fields for a setting."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"


@dataclass(frozen=True)
class Setting:
    """A setting of a source or a destination at a broker, which a configuration may leave out.

    `default`: what is in force without it; a setting whose default is None may be given as null. `label`, `hint` (shown
    while the field is empty) and `note` (shown below it) are the form's. `stored`: what is stored for a source that
    leaves it out; `{name}` stands for the source's name. `is_redirect`: messages go there instead of where they failed.
    """

    name: str
    label: str
    check: Check
    default: Any = None
    hint: str = ""
    note: str = ""
    input: InputKind = InputKind.TEXT
    choices: tuple[str, ...] = ()
    stored: str | None = None
    is_redirect: bool = False


def text(value: object, _: object = None) -> str:
    """Check a name or another printable text."""
    # Unprintable characters are refused with the lone surrogates that UTF-8 cannot hold.
    if not isinstance(value, str) or not value.isprintable() or not value.strip():
        raise InvalidValue("must be a printable text")
    if len(value.encode()) > MAX_NAME_BYTES:
        raise InvalidValue(f"may have at most {MAX_NAME_BYTES} bytes")
    return value


def text_or_empty(value: object, _: object = None) -> str:
    """Check a printable text that may be empty."""
    return "" if value == "" else text(value)


def topic(value: object, _: object = None) -> str:
    """Check the name of a topic.

    >>> topic("orders-dlt")
    'orders-dlt'
    """
    name = text(value)
    if _TOPIC.match(name) is None or name in (".", ".."):
        raise InvalidValue(f"{name!r} is not a topic: letters, digits, dots, underscores and hyphens, at most 249")
    return name


def address_template(value: object, _: object = None) -> str:
    """Check a template of addresses with `{original}` and `{queue}`."""
    template = text(value)
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


def switch(name: str, label: str, default: bool) -> Setting:
    """Return a setting that is on or off."""

    def check(value: object, _: object = None) -> bool:
        if not isinstance(value, bool):
            raise InvalidValue("must be true or false")
        return value

    return Setting(name, label, check, default, input=InputKind.SWITCH)


def number(name: str, label: str, limits: range, default: int | None = None, **more: Any) -> Setting:
    """Return a setting that is a whole number within `limits`."""

    def check(value: object, _: object = None) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value not in limits:
            raise InvalidValue(f"must be a whole number from {limits.start} to {limits.stop - 1}")
        return value

    return Setting(name, label, check, default, input=InputKind.NUMBER, **more)


def choice(name: str, label: str, *choices: str) -> Setting:
    """Return a setting that is one of these texts; the first is its default."""

    def check(value: object, _: object = None) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InvalidValue(f"must be one of {', '.join(choices)}")
        return value

    return Setting(name, label, check, choices[0], input=InputKind.CHOICE, choices=choices)
