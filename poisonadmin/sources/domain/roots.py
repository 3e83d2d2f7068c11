"""The roots of directory sources: sources lie below directories that the environment names, links or no links."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE_ROOTS = "POISONADMIN_SOURCE_ROOTS"
INBOX = "inbox"
_OF_THE_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"), Path("/etc"))
# To pass through a directory one need not be allowed to list it.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class UnusableSourceRoots(ValueError):
    """Raised when POISONADMIN_SOURCE_ROOTS names something below which no files may be taken in."""


class OutsideRoots(Exception):
    """Raised when a directory is not below any root."""


def source_roots(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the directories of `POISONADMIN_SOURCE_ROOTS`; `inbox` in the home by default. They need not be there yet.

    Shape: absolute, a leading `~` expanded, links followed. Errors: `UnusableSourceRoots`.

    >>> source_roots({"POISONADMIN_SOURCE_ROOTS": "/srv/incoming:/mnt/share"}, Path("/var/lib/poisonadmin"))
    (PosixPath('/srv/incoming'), PosixPath('/mnt/share'))
    """
    texts = [text.strip() for text in environment.get(SOURCE_ROOTS, "").split(os.pathsep) if text.strip()]
    home = _followed(home)
    return tuple(_root(text, home) for text in texts or [str(home / INBOX)])


def _root(text: str, home: Path) -> Path:
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise UnusableSourceRoots(f"{SOURCE_ROOTS}: {text}: {error}") from None
    if not path.is_absolute():
        raise UnusableSourceRoots(f"{SOURCE_ROOTS}: {text} is not absolute; write it from the root or with ~.")
    root = _followed(path)
    # What is no message is shown among the rejected lines: neither secrets nor devices may be read that way.
    if root == Path("/") or any(root.is_relative_to(one) for one in _OF_THE_SYSTEM):
        raise UnusableSourceRoots(f"{SOURCE_ROOTS}: {text} is a directory of the system.")
    if home.is_relative_to(root) or (root.is_relative_to(home) and not root.is_relative_to(home / INBOX)):
        raise UnusableSourceRoots(f"{SOURCE_ROOTS}: {text} holds this installation's own directory, or is in it.")
    return root


def directory_below(path: str, roots: Sequence[Path]) -> Path:
    """Return where the path leads, its links followed; raise OutsideRoots where it is below no root."""
    found = _followed(Path(path))
    if not any(found.is_relative_to(root) for root in roots):
        raise OutsideRoots(f"{path} is not below {SOURCE_ROOTS} ({', '.join(map(str, roots))}).")
    return found


def open_without_links(path: bytes, flags: int) -> int:
    """Open what an absolute path names and return its descriptor. No part of the path may be a link.

    So what a path was found to lead to is what is opened, whatever has taken the place of a part since.
    Errors: `OSError`.
    """
    *directories, name = path.split(b"/")[1:]
    at = os.open(b"/", _PASS)
    try:
        for directory in directories:
            inside = os.open(directory, _PASS | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inside
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def _followed(path: Path) -> Path:
    return Path(os.path.realpath(path))
