"""The account that changed something last."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.queries.rows import fetch_one


@dataclass(frozen=True)
class LastChange:
    """The newest entry of the audit log that saved an object."""

    by: str
    at: datetime


def last_change(object_type: str, name: str) -> LastChange | None:
    """Return who saved the object of this name last; None where the audit log has nothing of it."""
    return fetch_one(
        LastChange,
        "SELECT actor AS by, at FROM audit WHERE object_type = %s AND object_id = %s AND action = %s"
        " ORDER BY id DESC LIMIT 1",
        [object_type, name, f"{object_type}.saved"],
    )
