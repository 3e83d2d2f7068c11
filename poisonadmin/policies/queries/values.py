"""The policy in force on an address, value by value, with where each comes from."""

from dataclasses import dataclass, fields
from enum import StrEnum

from poisonadmin.policies.domain import settings
from poisonadmin.policies.domain.policy import BUILT_IN, Policy
from poisonadmin.policies.domain.resolution import BUILT_IN_ORIGIN, Resolved


@dataclass(frozen=True)
class FormSection:
    """Settings that belong together."""

    title: str
    names: tuple[str, ...]


SECTIONS = tuple(FormSection(title, tuple(checks)) for title, checks in settings.SECTIONS.items())
ALWAYS_OPEN = {"Redelivery", "Dead letters", "Crashes"}
# Numbers that may be null, and what null says of them.
WORDS_OF_NULL = {
    "max_redelivery_delay": "ten times redelivery_delay",
    "listener_max_retries": "off",
    "keep_delivered_days": "never",
    "keep_failed_days": "never",
    "keep_payload_days": "never",
}
IN_MILLISECONDS = {"redelivery_delay", "max_redelivery_delay", "blocked_retry_timeout"}


@dataclass(frozen=True)
class Value:
    """One setting in force. `is_own` False: it is the built-in one."""

    name: str
    text: str
    origin: str
    is_own: bool


@dataclass(frozen=True)
class SectionInForce:
    """The settings of a section; `opened` when a page should show them at once."""

    title: str
    values: list[Value]
    opened: bool


def values_in_force(resolved: Resolved) -> list[SectionInForce]:
    """Return every setting in force, section by section."""
    return [
        SectionInForce(section.title, [_value(resolved, name) for name in section.names], section.title in ALWAYS_OPEN)
        for section in SECTIONS
    ]


def _value(resolved: Resolved, name: str) -> Value:
    origin = resolved.origins[name]
    built_in = origin == BUILT_IN_ORIGIN
    where = "built in" if built_in else f"{origin.pattern}{f' ({origin.preset})' if origin.preset else ''}"
    return Value(name, shown(name, getattr(resolved.policy, name)), where, not built_in)


def shown(name: str, value: object) -> str:
    """Return a setting's value as pages show it.

    >>> shown("redelivery_delay", 5000), shown("ordered", True), shown("keep_failed_days", None)
    ('5000 ms', 'yes', 'never')
    """
    if value is None and name in WORDS_OF_NULL:
        return WORDS_OF_NULL[name]
    if value is None or value in ((), ""):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "max_delivery_attempts" and value == -1:
        return "unlimited"
    if isinstance(value, tuple | list):
        return ", ".join(str(item) for item in value)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value} ms" if name in IN_MILLISECONDS else f"{value} bytes" if name == "max_payload_bytes" else str(value)


def kinds() -> dict[str, str]:
    """Return for every setting the kind of field that a form offers: flag, number, choice or text."""
    return {field.name: _kind(field.name) for field in fields(Policy)}


def _kind(name: str) -> str:
    value = getattr(BUILT_IN, name)
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, StrEnum):
        return "choice"
    if isinstance(value, int | float) or name in WORDS_OF_NULL:
        return "number"
    return "list" if isinstance(value, tuple) else "text"


def choices(name: str) -> list[str]:
    """Return the values of a setting of the kind `choice`."""
    value = getattr(BUILT_IN, name)
    return [str(choice) for choice in type(value)] if isinstance(value, StrEnum) else []
