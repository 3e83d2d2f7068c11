"""The audit log, newest first; until when it is sealed, and whether it is as it was sealed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Page, fetch_page, window
from poisonadmin.core.queries.rows import bounded, columns, execute, fetch_one, fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_given
from poisonadmin.system.domain.audit_chain import AuditComparison, AuditLink


@dataclass(frozen=True)
class AuditFilter:
    """All that is given must hold."""

    actor: str | None = None
    action: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True)
class AuditRow:
    """One deliberate act."""

    id: int
    at: datetime
    actor: str
    action: str
    object_type: str
    object_id: str
    note: str | None
    details: Mapping[str, Any]
    request_id: str | None


def list_audit(
    only: AuditFilter, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[AuditRow]:
    """Return one page. A principal that is limited to some addresses sees its own acts only."""
    principal.require(Permission.READ)
    page = window(cursor, limit, NEWEST_FIRST)
    where = all_given(
        {
            "actor = {value}": only.actor,
            "action = {value}": only.action,
            "object_type = {value}": only.object_type,
            "object_id = {value}": only.object_id,
            "at >= {value}": only.after,
            "at < {value}": only.before,
            "(actor) = {value}": None if principal.sees_everything else principal.name,
        }
    )
    with bounded():
        sql = Sql("SELECT {columns} FROM audit WHERE {where}", columns=columns(AuditRow, "audit"), where=where)
        return fetch_page(AuditRow, sql, page=page)


# Of a row of `audit`. The id is not part of it: a row that took another's place is told from one that was changed.
ROW_HASH = Sql(
    """sha256(convert_to(jsonb_build_array((extract(epoch FROM at) * 1000000)::bigint, actor, action, object_type,
                                        object_id, note, details, request_id)::text, 'UTF8'))"""
)
_SEALED = """
SELECT at AS until, (SELECT min(at) FROM audit WHERE id > sealed.id) AS unsealed_since
FROM audit AS sealed WHERE id = (SELECT max(audit_id) FROM audit_seal)
"""
_LINKS = Sql(
    """SELECT coalesce(audit.id, seal.audit_id), CASE WHEN audit.id IS NOT NULL THEN {row_hash} END,
           seal.row_hash, seal.chain_hash
    FROM audit FULL JOIN audit_seal AS seal ON seal.audit_id = audit.id
    WHERE coalesce(audit.id, seal.audit_id) <= (SELECT max(audit_id) FROM audit_seal)
    ORDER BY 1""",
    row_hash=ROW_HASH,
)
_SEALED_AS = "SELECT row_hash, min(audit_id) FROM audit_seal WHERE row_hash = ANY(%s) GROUP BY 1"
_SEALED_OF = "SELECT audit_id FROM audit_seal WHERE audit_id = ANY(%s)"
_UNSEALED = "SELECT count(*) FROM audit WHERE id > coalesce((SELECT max(audit_id) FROM audit_seal), 0)"


@dataclass(frozen=True)
class AuditSealed:
    """The time of the latest entry that is sealed, and of the oldest one that is not; None where all are."""

    until: datetime
    unsealed_since: datetime | None


def audit_sealed(*, principal: Principal) -> AuditSealed | None:
    """Return until when the log is sealed; None before the first seal, and for who is limited to some addresses."""
    principal.require(Permission.READ)
    return fetch_one(AuditSealed, _SEALED) if principal.sees_everything else None


def count_unsealed() -> int:
    """Return how many entries of the audit log wait for their seal."""
    return int(fetch_values(_UNSEALED)[0])


def verify_audit(known: Mapping[int, str] | None = None) -> AuditComparison:
    """Compare every entry of the audit log with its seal, and the seals with each other.

    `known`: seals that were noted elsewhere, in hexadecimal, by the id of their entry.
    """
    compared = AuditComparison(known or {})
    with transaction.atomic():
        with connection.chunked_cursor() as cursor:
            execute(cursor, _LINKS)
            for entry_id, *hashes in cursor:
                compared.add(AuditLink(entry_id, *(None if one is None else bytes(one) for one in hashes)))
        changed = list(compared.changed.values())
        sealed_as = {bytes(row): entry_id for row, entry_id in fetch_rows(_SEALED_AS, [changed])}
        sealed_ids = fetch_values(_SEALED_OF, [list(compared.known)])
    compared.end(sealed_as, sealed_ids)
    return compared
