"""Checks on the settings that a policy object overrides, one check a field."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any

from poisonadmin.core.domain import durations, settings
from poisonadmin.core.domain.addresses import validate_address
from poisonadmin.core.domain.errors import InvalidField, PoisonAdminError, all_checked
from poisonadmin.core.domain.settings import Bounds, InvalidValue, Setting, of_field, one_of, within
from poisonadmin.messages.domain.business_keys import InvalidBusinessKey, parsed_keys
from poisonadmin.policies.domain.policy import (
    SYSTEM_DEAD_LETTER_QUEUE,
    UNLIMITED,
    Blame,
    ExceptionDestination,
    OnExhausted,
    Policy,
    system_exception_destination,
)

# Ten years: far beyond any use, and ten times it still fits a timestamp.
MAX_DELAY_MS = 10 * 366 * 24 * 3600 * 1000
MAX_COUNT = 2**31 - 1
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
MAX_MULTIPLIER = 1_000_000.0
MAX_AFFIX_CHARS = 64
MAX_ENGINE_CHARS = 64
MAX_BUSINESS_KEYS = 5
MAX_BUSINESS_KEY_CHARS = 255
MAX_KEPT_DAYS = 36_500


class UnknownSetting(PoisonAdminError):
    """Raised when a policy names a setting that does not exist; `field` is that name."""

    code = "unknown_setting"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field!r} is not a setting of a policy.")
        self.field = field


class InvalidSetting(InvalidField):
    """Raised when a setting has a wrong type or lies outside its range; `field` is its name."""

    code = "invalid_setting"


def validate_settings(given: Mapping[str, object]) -> dict[str, object]:
    """Return the settings as the values that `Policy` takes, in the order given.

    Errors: `UnknownSetting`, `InvalidSetting`; both name the field, and have the other fields' errors as `others`.

    >>> validate_settings({"redelivery_delay_multiplier": 2, "on_exhausted": "discard"})
    {'redelivery_delay_multiplier': 2.0, 'on_exhausted': <OnExhausted.DISCARD: 'discard'>}
    """
    if not isinstance(given, Mapping):
        raise InvalidSetting("settings", "must be an object.")
    return all_checked({field: partial(_checked, field, value) for field, value in given.items()})


def _checked(field: str, value: object) -> object:
    one = SETTINGS.get(field)
    if one is None:
        raise UnknownSetting(field)
    if one.check is None or (value is None and one.default is None):
        return value
    return of_field(field, partial(one.check, value), InvalidSetting)


def _decimal(low: float, high: float) -> Any:
    bounds = Bounds(low, high, f"must be within {low:g}..{high:g}.", (int, float), "must be a number.")
    return settings.decimal(check=lambda value: float(bounds(value)))


def _one_of(values: type[StrEnum], words: Mapping[str, str] | None = None) -> Any:
    known = one_of(values, ".")
    named = words or {str(one): str(one) for one in values}
    return settings.choice(check=lambda value: values(known(value)), words=named)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue("must be true or false.")
    return value


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValue("must be an address.")
    return validate_address(value)


def _attempts(value: object) -> object:
    if value == UNLIMITED and not isinstance(value, bool | float):
        return value
    try:
        return within(1, MAX_COUNT)(value)
    except InvalidValue:
        raise InvalidValue("must be a whole number of at least 1, or -1 for no limit.") from None


def _affix(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValue("must be a string.")
    if len(value) > MAX_AFFIX_CHARS:
        raise InvalidValue(f"must have at most {MAX_AFFIX_CHARS} characters.")
    if not value.isprintable() or any(character in value for character in " *#") or ".." in value:
        raise InvalidValue("must be a piece of an address: no spaces, wildcards or empty words.")
    return value


def _engine(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_ENGINE_CHARS:
        raise InvalidValue(f"must be a name of at most {MAX_ENGINE_CHARS} characters.")
    return validate_address(value)


def _business_keys(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_BUSINESS_KEYS:
        raise InvalidValue(f"must be a list of at most {MAX_BUSINESS_KEYS} JSON paths or headers.")
    for key in value:
        if not isinstance(key, str) or not key.isprintable() or not 1 <= len(key) <= MAX_BUSINESS_KEY_CHARS:
            raise InvalidValue(f"each must be a printable text of 1 to {MAX_BUSINESS_KEY_CHARS} characters.")
    try:
        parsed_keys(tuple(value))
    except InvalidBusinessKey as error:
        raise InvalidValue(str(error)) from None
    return tuple(value)


_ENDS: dict[str, str] = {
    OnExhausted.PARK: "an administrator decides",
    OnExhausted.DISCARD: "give it up",
    OnExhausted.STAY: "keep trying",
    OnExhausted.END_CONVERSATION: "end its conversation",
    OnExhausted.LIST: "put it on the poison list",
}
_FLAG = settings.switch(check=_boolean)
_DELAY = durations.duration("", 0, MAX_DELAY_MS)
_COUNT = settings.number(check=within(0, MAX_COUNT))
_DAYS = settings.number(check=within(0, MAX_KEPT_DAYS), default=None, hint="never")
_ADDRESS = settings.text(check=_address, default=None)
_AFFIX = settings.text(check=_affix)
_ENGINE = settings.text(check=_engine)

# The settings as pages group them: those of a system, or of a subject, each declared once.
SECTIONS: dict[str, dict[str, Setting]] = {
    "Redelivery": {
        "redelivery_delay": _DELAY,
        "redelivery_delay_multiplier": _decimal(0.0, MAX_MULTIPLIER),
        "redelivery_collision_avoidance_factor": _decimal(0.0, 1.0),
        "max_redelivery_delay": replace(_DELAY, default=None, hint="ten times redelivery_delay"),
        "max_delivery_attempts": settings.number(check=_attempts),
        "crashes_count_as_failures": _FLAG,
        "rollbacks_count_as_failures": _FLAG,
        "on_exhausted": _one_of(OnExhausted, _ENDS),
    },
    "Dead letters": {
        "dead_letter_address": _ADDRESS,
        "auto_create_dead_letter_resources": _FLAG,
        "dead_letter_queue_prefix": _AFFIX,
        "dead_letter_queue_suffix": _AFFIX,
    },
    "Crashes": {
        "blacklisting_enabled": _FLAG,
        "crash_limit": settings.number(check=within(1, MAX_COUNT)),
        "blame": _one_of(Blame),
        "approve_clears_candidate": _FLAG,
        "fail_non_delivered": _FLAG,
    },
    "WebSphere": {
        "max_failed_deliveries": _COUNT,
        "exception_destination": _one_of(ExceptionDestination),
        "exception_destination_address": _ADDRESS,
        "messaging_engine": _ENGINE,
        "blocked_retry_timeout": _DELAY,
    },
    "WebSphere MQ": {
        "listener_max_retries": replace(_COUNT, default=None, hint="off"),
        "backout_threshold": _COUNT,
        "backout_requeue_queue": _ADDRESS,
    },
    "AMPS": {
        "failures_to_list": _COUNT,
        "crashes_to_list": _COUNT,
    },
    "Service Broker": {
        "queue_off_after_rollbacks": _COUNT,
        "conversation_failure_limit": _COUNT,
        "conversation_error_address": _ADDRESS,
    },
    "Content and order": {
        "ordered": _FLAG,
        "max_payload_bytes": settings.number(check=within(1, MAX_PAYLOAD_BYTES), unit=" bytes"),
        "business_keys": settings.lines(check=_business_keys),
        "persist_delivery_count_before_delivery": _FLAG,
    },
    "Retention": {
        "keep_delivered_days": _DAYS,
        "keep_failed_days": _DAYS,
        "keep_payload_days": _DAYS,
    },
}
SETTINGS: dict[str, Setting] = {name: one for section in SECTIONS.values() for name, one in section.items()}


def implied_addresses(policy: Policy) -> list[tuple[str, str]]:
    """Return the addresses to which a policy moves messages without naming them, each behind what would name another.

    >>> implied_addresses(Policy(backout_threshold=3))
    [('backout_requeue_queue', 'SYSTEM.DEAD.LETTER.QUEUE')]
    """
    found = []
    if policy.backout_threshold > 0 and policy.backout_requeue_queue is None:
        found.append(("backout_requeue_queue", SYSTEM_DEAD_LETTER_QUEUE))
    goes = policy.exception_destination
    is_named = goes is ExceptionDestination.SPECIFY and policy.exception_destination_address is not None
    if policy.max_failed_deliveries > 0 and goes is not ExceptionDestination.NONE and not is_named:
        found.append(("exception_destination", system_exception_destination(policy.messaging_engine)))
    return found


def named_addresses(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the addresses that checked settings name, each behind its setting.

    >>> named_addresses({"messaging_engine": "me01", "dead_letter_address": None, "backout_requeue_queue": "bo"})
    [('messaging_engine', '_SYSTEM.Exception.Destination.me01'), ('backout_requeue_queue', 'bo')]
    """
    found = []
    for name, value in given.items():
        if SETTINGS.get(name) is _ENGINE:
            found.append((name, system_exception_destination(value)))
        elif SETTINGS.get(name) is _ADDRESS and value is not None:
            found.append((name, value))
    return found
