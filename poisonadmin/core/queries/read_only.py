"""The read-only mode of the installation: while it is on, nothing is taken in, decided, configured or delivered."""

import time
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.rows import fetch_rows

# Each process reads the mode so often.
REFRESH_SECONDS = 1.0
_known: "tuple[float, ReadOnlySince | None] | None" = None


class ReadOnly(PoisonAdminError):
    """Raised when something is to be changed while the installation is read-only."""

    code = "read_only"
    status = 503


@dataclass(frozen=True)
class ReadOnlySince:
    """The reason, the person and the time by which nothing may be changed any more."""

    reason: str
    switched_on_by: str
    since: datetime


def read_only_mode() -> ReadOnlySince | None:
    """Return the mode while it is on, as it was within the last second; None while it is off."""
    global _known
    now = time.monotonic()
    if _known is None or now - _known[0] >= REFRESH_SECONDS:
        rows = fetch_rows("SELECT reason, switched_on_by, since FROM read_only_mode")
        _known = now, ReadOnlySince(*rows[0]) if rows else None
    return _known[1]


def forget_mode() -> None:
    """Have this process read the mode anew."""
    global _known
    _known = None


def require_writable() -> None:
    """Do nothing while changes are taken. Errors: `ReadOnly`."""
    if mode := read_only_mode():
        raise ReadOnly(f"PoisonAdmin is read-only, as {mode.switched_on_by} has switched it: {mode.reason}")
