"""The policy in force on an address, value by value, with where each comes from."""

from dataclasses import dataclass

from poisonadmin.policies.domain import settings
from poisonadmin.policies.domain.resolution import BUILT_IN_ORIGIN, Resolved

ALWAYS_OPEN = {"Redelivery", "Dead letters", "Crashes"}


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
        SectionInForce(title, [_value(resolved, name) for name in section], title in ALWAYS_OPEN)
        for title, section in settings.SECTIONS.items()
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
    one = settings.SETTINGS[name]
    if value is None and one.hint:
        return one.hint
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
    return f"{value}{one.unit}"
