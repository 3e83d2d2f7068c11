"""Where handlers may be imported from, and whether a module is there. Nothing is imported here."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from poisonadmin.destinations.domain.http_config import InvalidDestination

HANDLER_PATH = "POISONADMIN_HANDLER_PATH"
# What a sandbox has imported before it looks for a handler: a module of such a name would never be found.
_TAKEN = frozenset({"poisonadmin", "poisonadmin_handler", "workers"})


class UnusableHandlerPath(ValueError):
    """Raised when POISONADMIN_HANDLER_PATH names something that is not an existing directory."""


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
