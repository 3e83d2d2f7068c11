"""The audit log: one row a deliberate act, in the transaction of the act; and who has saved something last."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from poisonadmin.core.queries.rows import fetch_one
from poisonadmin.store.models.access import Audit


def record(
    actor: str,
    action: str,
    object_type: str,
    object_id: str,
    *,
    note: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Append one row; `action` is `object.verb`, `details` is JSON and holds no secret. The request's id is added."""
    Audit.objects.create(
        actor=actor,
        action=action,
        object_type=object_type,
        object_id=object_id,
        note=note,
        details=dict(details or {}),
        request_id=str(structlog.contextvars.get_contextvars().get("request_id") or "")[:64] or None,
    )


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
