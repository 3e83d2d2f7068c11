"""The one base class of every error that PoisonAdmin raises on purpose, and the errors that many features raise."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class PoisonAdminError(Exception):
    """Raised when a request cannot be served; the API maps it to `application/problem+json` in one place.

    An error of one feature is defined in the module that raises it. One class declares a `code`, which clients rely on
    and which therefore never changes, with its `status`, the HTTP status; what derives from it has the same.
    `others`: what else is wrong with the same request, found in the same go.
    """

    code: str = "poisonadmin_error"
    status: int = 400
    others: tuple["PoisonAdminError", ...] = ()

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class InvalidField(PoisonAdminError):
    """The base of errors of one field. `reason` says what is wrong without naming the field, as a form shows it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def error_text(error: BaseException) -> str:
    """Return an error's class and the first line of its text."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's text, or the last line of a traceback in it; empty where it has none.

    >>> trace = "Traceback (most recent call last):\n  File …\nOSError: [Errno 28]\n\nat x"
    >>> first_line(ValueError(f"A task failed:\n{trace}"))
    'OSError: [Errno 28]'
    """
    text = str(error).strip()
    _, has_traceback, trace = text.rpartition("Traceback (most recent call last):\n")
    if has_traceback:
        text = next((line for line in trace.splitlines() if line[:1].strip()), text)
    return (text.splitlines() or [""])[0]


def all_checked(checks: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return what each check returns; every one is made, so that a person learns all mistakes at once.

    Errors: the first check's that raised one, with those of the rest as its `others`.
    """
    found: dict[str, Any] = {}
    errors: list[PoisonAdminError] = []
    for name, check in checks.items():
        try:
            found[name] = check()
        except PoisonAdminError as error:
            errors += [error, *error.others]
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]
    return found


class NotFound(PoisonAdminError):
    """Raised when there is nothing of this id or name, or none in the caller's scope; the two look the same."""

    code = "not_found"
    status = 404


class AlreadyExists(PoisonAdminError):
    """Raised when something is to be created under a name that is taken."""

    code = "already_exists"
    status = 409


NEW = 0
"""The version that is expected of what is about to be created; what is stored begins with 1."""


class PreconditionFailed(PoisonAdminError):
    """Raised when it has changed since it was read, and nothing was done."""

    code = "precondition_failed"
    status = 412


class _Stored(Protocol):
    @property
    def version(self) -> int: ...


def require_version(what: str, before: _Stored | None, expected: int | None) -> None:
    """Do nothing where what is stored, None for nothing, has the version that is expected; None: any will do.

    Errors: `AlreadyExists` where `NEW` is expected, else `PreconditionFailed`.
    """
    if expected == NEW and before is not None:
        raise AlreadyExists(f"There is a {what} already.")
    if expected not in (None, NEW, before and before.version):
        raise PreconditionFailed(f"The {what} has changed since it was read; nothing was saved.")
