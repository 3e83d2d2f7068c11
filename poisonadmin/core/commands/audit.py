"""The audit log: one row a deliberate act, in the transaction of the act; and who has saved something last.

Payloads are read more often than anything else is done: those that one account reads in a minute make one row.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import connection

from poisonadmin.core.domain import ecs
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_one
from poisonadmin.store.models.access import Audit, PayloadRead

# Forbidden, and outside of the caller's scope, where it looks as if there were nothing.
_REFUSED = (403, 404)


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


def note_refused(request: Any, *, status: int, code: str) -> None:
    """Write a request that somebody known was refused to the stream of the audit log; strangers could fill it."""
    # REST framework's `auth` would ask again who this is, and raise again what it has just raised.
    principal = vars(request).get("principal") or vars(request).get("_auth")
    if status not in _REFUSED or not isinstance(principal, Principal):
        return
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    refusal = {"method": request.method, "path": request.path, "status": status, "code": code, "request_id": request_id}
    at = datetime.now(UTC).isoformat()
    logging.getLogger(ecs.LOGGER).info(ecs.refused_line(at, principal.name, refusal, settings.ENVIRONMENT_NAME))


def note_payload_reads(principal: Principal, ids: Iterable[int], object_type: str = "message") -> None:
    """Note that the payloads of these objects are about to be shown or sent to the principal."""
    PayloadRead.objects.bulk_create(
        PayloadRead(actor=principal.name, object_type=object_type, object_id=one) for one in ids
    )


# The object of what was read alone is itself, so that the log shows it among what was done with it.
_FOLD = """
WITH taken AS (
    DELETE FROM payload_read WHERE at < date_trunc('minute', now()) RETURNING at, actor, object_type, object_id
), folded AS (
    SELECT max(at) AS at, actor, object_type, array_agg(DISTINCT object_id) AS ids FROM taken
    GROUP BY actor, object_type, date_trunc('minute', at)
)
INSERT INTO audit (at, actor, action, object_type, object_id, details)
SELECT at, actor, 'payload.read', object_type || CASE WHEN cardinality(ids) > 1 THEN 's' ELSE '' END,
       CASE WHEN cardinality(ids) > 1 THEN cardinality(ids) ELSE ids[1] END, jsonb_build_object('ids', ids)
FROM folded ORDER BY at
"""


def fold_payload_reads() -> None:
    """Write what was read in the minutes that are over into the audit log: a row a minute and reader."""
    with connection.cursor() as cursor:
        cursor.execute(_FOLD)


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
