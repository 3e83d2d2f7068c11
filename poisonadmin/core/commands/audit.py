"""The audit log: one row a deliberate act, in the transaction of the act."""

from collections.abc import Mapping
from typing import Any

import structlog

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
