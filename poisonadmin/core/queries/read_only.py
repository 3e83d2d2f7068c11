"""Whether the installation is read-only: then nothing is taken in, decided, configured or delivered."""

import time
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.queries.rows import fetch_rows

# Each process looks so often.
LOOK_SECONDS = 1.0
_looked: "tuple[float, ReadOnlyMode | None] | None" = None


class ReadOnly(PoisonAdminError):
    """Raised when something is to be changed while the installation is read-only."""

    code = "read_only"
    status = 503


@dataclass(frozen=True)
class ReadOnlyMode:
    """Why, by whom and since when nothing may be changed."""

    reason: str
    switched_on_by: str
    since: datetime


def read_only_mode(*, is_fresh: bool = False) -> ReadOnlyMode | None:
    """Return the mode while it is on, as it was within the last second; None while it is off."""
    global _looked
    now = time.monotonic()
    if is_fresh or _looked is None or now - _looked[0] >= LOOK_SECONDS:
        rows = fetch_rows("SELECT reason, switched_on_by, since FROM read_only_mode")
        _looked = now, ReadOnlyMode(*rows[0]) if rows else None
    return _looked[1]


def require_writable() -> None:
    """Do nothing while changes are taken. Errors: `ReadOnly`."""
    if mode := read_only_mode():
        raise ReadOnly(f"PoisonAdmin is read-only, since {mode.switched_on_by} said so: {mode.reason}")
