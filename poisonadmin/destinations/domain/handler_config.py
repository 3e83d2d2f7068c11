"""What the configuration of a handler destination may say."""

import re
from collections.abc import Mapping
from typing import Any

from poisonadmin.destinations.domain.http_config import InvalidDestination

DEFAULTS: dict[str, Any] = {"memory_mb": 512, "cpu_seconds": 30.0, "timeout_ms": 30_000, "concurrency": 2}

MAX_CALLABLE_CHARS = 255
MEMORY_MB = (32, 65_536)
CPU_SECONDS = (0.1, 3600.0)
TIMEOUT_MS = (100, 3_600_000)
CONCURRENCY = (1, 64)

_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def validate_handler_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a handler destination, only what it sets; raise InvalidDestination naming the field.

    Shape: `{callable: "module:function", memory_mb?, cpu_seconds?, timeout_ms?, concurrency?}`. The limits hold for one
    message; `concurrency` is how many sandboxes of the destination may run at once.

    >>> validate_handler_config({"callable": "shop.orders:handle", "memory_mb": 256})
    {'callable': 'shop.orders:handle', 'memory_mb': 256}
    """
    for field in config:
        if field != "callable" and field not in DEFAULTS:
            raise InvalidDestination(str(field), f"unknown; known are callable, {', '.join(DEFAULTS)}")
    checked: dict[str, Any] = {"callable": _callable(config.get("callable"))}
    if "memory_mb" in config:
        checked["memory_mb"] = _number("memory_mb", config["memory_mb"], MEMORY_MB, "megabytes")
    if "cpu_seconds" in config:
        checked["cpu_seconds"] = _number("cpu_seconds", config["cpu_seconds"], CPU_SECONDS, "seconds", whole=False)
    if "timeout_ms" in config:
        checked["timeout_ms"] = _number("timeout_ms", config["timeout_ms"], TIMEOUT_MS, "milliseconds")
    if "concurrency" in config:
        checked["concurrency"] = _number("concurrency", config["concurrency"], CONCURRENCY, "sandboxes")
    return checked


def _callable(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_CALLABLE_CHARS or _CALLABLE.fullmatch(value) is None:
        raise InvalidDestination("callable", "must name a function as module:function, such as shop.orders:handle")
    return value


def _number(field: str, value: Any, limits: tuple[float, float], unit: str, *, whole: bool = True) -> int | float:
    is_number = isinstance(value, int) or (isinstance(value, float) and not whole)
    if isinstance(value, bool) or not is_number or not limits[0] <= value <= limits[1]:
        kind = "a whole number" if whole else "a number"
        raise InvalidDestination(field, f"must be {kind} from {limits[0]} to {limits[1]} {unit}")
    number: int | float = value
    return number
