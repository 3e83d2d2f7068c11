"""The configuration of a handler destination, checked."""

import os
import pwd
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.durations import duration
from poisonadmin.core.domain.settings import InvalidValue, checked_config, fraction, whole
from poisonadmin.destinations.domain.http_config import InvalidDestination

HANDLER_PATH = "POISONADMIN_HANDLER_PATH"
SANDBOX_USER = "POISONADMIN_SANDBOX_USER"
# What a sandbox has imported before it looks for a handler: a module of such a name would never be found.
_TAKEN = frozenset({"poisonadmin", "poisonadmin_handler", "workers"})
MAX_CALLABLE_CHARS = 255
_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class UnusableHandlerPath(ValueError):
    """Raised when POISONADMIN_HANDLER_PATH names something that is not an existing directory."""


class UnknownSandboxUser(ValueError):
    """Raised when POISONADMIN_SANDBOX_USER names nobody on this machine."""


def sandbox_user(environment: Mapping[str, str]) -> pwd.struct_passwd | None:
    """Return the user that POISONADMIN_SANDBOX_USER names, None where it is not set. Errors: `UnknownSandboxUser`."""
    if not (name := environment.get(SANDBOX_USER, "").strip()):
        return None
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise UnknownSandboxUser(f"{SANDBOX_USER} must name a user of this machine.") from None


def handler_directories(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the directories of `POISONADMIN_HANDLER_PATH`, in the order in which they are searched; none by default.

    Shape: absolute, a leading `~` expanded, links followed. Errors: `UnusableHandlerPath`.

    >>> handler_directories({})
    ()
    """
    return tuple(_directory(text) for text in environment.get(HANDLER_PATH, "").split(os.pathsep) if text.strip())


def _directory(text: str) -> Path:
    path = Path(text.strip())
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise UnusableHandlerPath(f"{HANDLER_PATH}: {text}: {error}") from None
    if not path.is_absolute():
        raise UnusableHandlerPath(f"{HANDLER_PATH}: {text} is not absolute; write it from the root or with ~.")
    if not path.is_dir():
        raise UnusableHandlerPath(f"{HANDLER_PATH}: {text} is not a directory that can be read.")
    return path.resolve()


def require_module(name: str, directories: Sequence[Path]) -> Path:
    """Return the file of the callable's module; raise InvalidDestination when no handler may, or can, be imported so.

    `name` is a callable that `validate_handler_config` has let through, `module:function`: its words are identifiers,
    so none of them climbs out of a directory.
    """
    if not directories:
        detail = f"no handler can be imported here: {HANDLER_PATH} is empty; it names the directories with handlers"
        raise InvalidDestination("callable", detail)
    module = name.partition(":")[0]
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in _TAKEN:
        raise InvalidDestination("callable", f"a module {top} exists already, which would be imported instead")
    relative = Path(*module.split("."))
    for directory in directories:
        for candidate in (directory / relative / "__init__.py", directory / relative.with_suffix(".py")):
            if candidate.is_file() and candidate.resolve().is_relative_to(directory):
                return candidate
    raise InvalidDestination("callable", f"there is no module {module} in the directories of {HANDLER_PATH}")


def _callable(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_CALLABLE_CHARS or _CALLABLE.fullmatch(value) is None:
        raise InvalidValue("must name a function as module:function, such as shop.orders:handle")
    return value


# The limits hold for one message; `concurrency` is how many sandboxes of the destination may run at once.
HANDLER = settings.named(
    callable=settings.text(
        "Function",
        _callable,
        most=MAX_CALLABLE_CHARS,
        hint="shop.orders:handle",
        note="module:function. The module is in a directory of POISONADMIN_HANDLER_PATH.",
    ),
    memory_mb=settings.number("Memory of a sandbox (MB)", whole(32, 65_536, " megabytes"), default=512),
    cpu_seconds=settings.decimal("Processor time per message (s)", fraction(0.1, 3600.0, " seconds"), default=30.0),
    timeout_ms=duration("Time per message", 100, 3_600_000, default=30_000),
    concurrency=settings.number("Sandboxes at once", whole(1, 64, " sandboxes"), default=2),
)
DEFAULTS: dict[str, Any] = {setting.name: setting.default for setting in HANDLER[1:]}


def validate_handler_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a handler destination, only what it sets; raise InvalidDestination naming the field.

    >>> validate_handler_config({"callable": "shop.orders:handle", "memory_mb": 256})
    {'callable': 'shop.orders:handle', 'memory_mb': 256}
    """
    return checked_config(HANDLER, config, InvalidDestination)
