"""Checks on the settings that a policy object overrides, one check a field."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from poisonadmin.core.domain.addresses import InvalidAddress, validate_address
from poisonadmin.core.domain.errors import InvalidField, PoisonAdminError, all_checked
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

Check = Callable[[object], object]


class UnknownSetting(PoisonAdminError):
    """Raised when a policy names a setting that does not exist; `field` is that name."""

    code = "unknown_setting"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field!r} is not a setting of a policy.")
        self.field = field


class InvalidSetting(InvalidField):
    """Raised when a setting has a wrong type or lies outside its range; `field` is its name."""

    code = "invalid_setting"


class _InvalidValue(Exception):
    """Raised by a check, which does not know the field's name."""


def validate_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings as the values that `Policy` takes, in the order given.

    Errors: `UnknownSetting`, `InvalidSetting`; both name the field, and have the other fields' errors as `others`.

    >>> validate_settings({"redelivery_delay_multiplier": 2, "on_exhausted": "discard"})
    {'redelivery_delay_multiplier': 2.0, 'on_exhausted': <OnExhausted.DISCARD: 'discard'>}
    """
    if not isinstance(settings, Mapping):
        raise InvalidSetting("settings", "must be an object.")
    return all_checked({field: partial(_checked, field, value) for field, value in settings.items()})


def _checked(field: str, value: object) -> object:
    check = CHECKS.get(field)
    if check is None:
        raise UnknownSetting(field)
    try:
        return check(value)
    except _InvalidValue as error:
        raise InvalidSetting(field, str(error)) from None
    except InvalidAddress as error:
        raise InvalidSetting(field, error.detail) from None


def _integer(low: int, high: int) -> Check:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _InvalidValue("must be a whole number.")
        if not low <= value <= high:
            raise _InvalidValue(f"must be within {low}..{high}.")
        return value

    return check


def _number(low: float, high: float) -> Check:
    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _InvalidValue("must be a number.")
        if not low <= value <= high or not math.isfinite(value):
            raise _InvalidValue(f"must be within {low:g}..{high:g}.")
        return float(value)

    return check


def _one_of(values: type[StrEnum]) -> Check:
    def check(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in list(values):
            raise _InvalidValue(f"must be one of {', '.join(values)}.")
        return values(value)

    return check


def _or_none(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _InvalidValue("must be true or false.")
    return value


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise _InvalidValue("must be an address.")
    return validate_address(value)


_address_or_none = _or_none(_address)


def _attempts(value: object) -> object:
    if value == UNLIMITED and not isinstance(value, bool | float):
        return value
    try:
        return _integer(1, MAX_COUNT)(value)
    except _InvalidValue:
        raise _InvalidValue("must be a whole number of at least 1, or -1 for no limit.") from None


def _affix(value: object) -> str:
    if not isinstance(value, str):
        raise _InvalidValue("must be a string.")
    if len(value) > MAX_AFFIX_CHARS:
        raise _InvalidValue(f"must have at most {MAX_AFFIX_CHARS} characters.")
    if not value.isprintable() or any(character in value for character in " *#") or ".." in value:
        raise _InvalidValue("must be a piece of an address: no spaces, wildcards or empty words.")
    return value


def _engine(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_ENGINE_CHARS:
        raise _InvalidValue(f"must be a name of at most {MAX_ENGINE_CHARS} characters.")
    return validate_address(value)


def _business_keys(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_BUSINESS_KEYS:
        raise _InvalidValue(f"must be a list of at most {MAX_BUSINESS_KEYS} JSON paths or headers.")
    for key in value:
        if not isinstance(key, str) or not key.isprintable() or not 1 <= len(key) <= MAX_BUSINESS_KEY_CHARS:
            raise _InvalidValue(f"each must be a printable text of 1 to {MAX_BUSINESS_KEY_CHARS} characters.")
    try:
        parsed_keys(tuple(value))
    except InvalidBusinessKey as error:
        raise _InvalidValue(str(error)) from None
    return tuple(value)


_delay = _integer(0, MAX_DELAY_MS)
_limit = _integer(0, MAX_COUNT)
_days = _or_none(_integer(0, MAX_KEPT_DAYS))

# The settings as pages group them: those of a system, or of a subject, with the check of each.
SECTIONS: dict[str, dict[str, Check]] = {
    "Redelivery": {
        "redelivery_delay": _delay,
        "redelivery_delay_multiplier": _number(0.0, MAX_MULTIPLIER),
        "redelivery_collision_avoidance_factor": _number(0.0, 1.0),
        "max_redelivery_delay": _or_none(_delay),
        "max_delivery_attempts": _attempts,
        "crashes_count_as_failures": _boolean,
        "rollbacks_count_as_failures": _boolean,
        "on_exhausted": _one_of(OnExhausted),
    },
    "Dead letters": {
        "dead_letter_address": _address_or_none,
        "auto_create_dead_letter_resources": _boolean,
        "dead_letter_queue_prefix": _affix,
        "dead_letter_queue_suffix": _affix,
    },
    "Crashes": {
        "blacklisting_enabled": _boolean,
        "crash_limit": _integer(1, MAX_COUNT),
        "blame": _one_of(Blame),
        "approve_clears_candidate": _boolean,
        "fail_non_delivered": _boolean,
    },
    "WebSphere": {
        "max_failed_deliveries": _limit,
        "exception_destination": _one_of(ExceptionDestination),
        "exception_destination_address": _address_or_none,
        "messaging_engine": _engine,
        "blocked_retry_timeout": _delay,
    },
    "WebSphere MQ": {
        "listener_max_retries": _or_none(_limit),
        "backout_threshold": _limit,
        "backout_requeue_queue": _address_or_none,
    },
    "AMPS": {
        "failures_to_list": _limit,
        "crashes_to_list": _limit,
    },
    "Service Broker": {
        "queue_off_after_rollbacks": _limit,
        "conversation_failure_limit": _limit,
        "conversation_error_address": _address_or_none,
    },
    "Content and order": {
        "ordered": _boolean,
        "max_payload_bytes": _integer(1, MAX_PAYLOAD_BYTES),
        "business_keys": _business_keys,
        "persist_delivery_count_before_delivery": _boolean,
    },
    "Retention": {
        "keep_delivered_days": _days,
        "keep_failed_days": _days,
        "keep_payload_days": _days,
    },
}
CHECKS: dict[str, Check] = {name: check for checks in SECTIONS.values() for name, check in checks.items()}


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


def named_addresses(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the addresses that checked settings name, each behind its setting.

    >>> named_addresses({"messaging_engine": "me01", "dead_letter_address": None, "backout_requeue_queue": "bo"})
    [('messaging_engine', '_SYSTEM.Exception.Destination.me01'), ('backout_requeue_queue', 'bo')]
    """
    found = []
    for name, value in settings.items():
        if CHECKS.get(name) is _engine:
            found.append((name, system_exception_destination(value)))
        elif CHECKS.get(name) is _address_or_none and value is not None:
            found.append((name, value))
    return found
