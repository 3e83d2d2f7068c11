"""The policy in force on an address, value by value, with where each comes from."""

from dataclasses import dataclass, fields
from enum import StrEnum

from poisonadmin.policies.domain.policy import BUILT_IN, Policy
from poisonadmin.policies.domain.resolution import BUILT_IN_ORIGIN, Resolved


@dataclass(frozen=True)
class Section:
    """Settings that belong together."""

    title: str
    names: tuple[str, ...]


SECTIONS = (
    Section(
        "Redelivery",
        (
            "redelivery_delay",
            "redelivery_delay_multiplier",
            "redelivery_collision_avoidance_factor",
            "max_redelivery_delay",
            "max_delivery_attempts",
            "on_exhausted",
        ),
    ),
    Section(
        "Dead letters",
        (
            "dead_letter_address",
            "auto_create_dead_letter_resources",
            "dead_letter_queue_prefix",
            "dead_letter_queue_suffix",
        ),
    ),
    Section(
        "Crashes",
        ("blacklisting_enabled", "crash_limit", "blame", "approve_clears_candidate", "fail_non_delivered"),
    ),
    Section(
        "WebSphere",
        (
            "max_failed_deliveries",
            "exception_destination",
            "exception_destination_address",
            "messaging_engine",
            "blocked_retry_timeout",
        ),
    ),
    Section("WebSphere MQ", ("listener_max_retries", "backout_threshold", "backout_requeue_queue")),
    Section("AMPS", ("failures_to_list", "crashes_to_list")),
    Section("Service Broker", ("queue_off_after_rollbacks", "conversation_failure_limit")),
    Section(
        "Content and order",
        ("ordered", "max_payload_bytes", "business_keys", "persist_delivery_count_before_delivery"),
    ),
)
ALWAYS_OPEN = {"Redelivery", "Dead letters", "Crashes"}
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

    >>> shown("redelivery_delay", 5000), shown("ordered", True), shown("max_delivery_attempts", -1)
    ('5000 ms', 'yes', 'unlimited')
    """
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
    if isinstance(value, int | float) or name == "listener_max_retries":
        return "number"
    return "list" if isinstance(value, tuple) else "text"


def choices(name: str) -> list[str]:
    """Return the values of a setting of the kind `choice`."""
    value = getattr(BUILT_IN, name)
    return [str(choice) for choice in type(value)] if isinstance(value, StrEnum) else []
