"""The versions of a message's payload and headers."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import StoredBytes, fetch, fetch_rows, fetch_values, known, stored_bytes
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.queries import payload_changes
from poisonadmin.decisions.queries.payload_changes import MessageContent
from poisonadmin.messages.queries.archived import archived_version_payload, archived_versions
from poisonadmin.messages.queries.message_rows import require_message
from poisonadmin.messages.queries.payload_removals import require_payload

# The number of the version that a delivery carried; `t` is its attempt.
OF_ATTEMPT = Sql(
    """coalesce(
    (SELECT min(v.number) FROM payload_version AS v
     WHERE v.message_id = t.message_id AND v.until_attempt >= t.attempt_number),
    1 + (SELECT count(*) FROM payload_version AS v WHERE v.message_id = t.message_id))"""
)
# The number of the version that a change of state made; `history` is the change.
OF_CHANGE = Sql(
    """CASE history.event
    WHEN 'patched' THEN (SELECT min(v.number) + 1 FROM payload_version AS v
        WHERE v.message_id = history.message_id AND v.operation_id = history.operation_id)
    WHEN 'operation_cancelled' THEN (SELECT max(v.number) + 1 FROM payload_version AS v
        WHERE v.message_id = history.message_id AND v.operation_id = history.operation_id HAVING count(*) > 1) END"""
)

_VERSIONS = """
SELECT 1 + count(*)::int AS number, NULL::int AS until_attempt, NULL::timestamptz AS replaced_at,
       NULL::text AS replaced_by, NULL::bigint AS operation_id,
       (SELECT octet_length(payload) FROM body WHERE id = %(id)s) AS payload_bytes
FROM payload_version WHERE message_id = %(id)s
UNION ALL
SELECT number, until_attempt, replaced_at, replaced_by, operation_id, octet_length(payload)
FROM payload_version WHERE message_id = %(id)s ORDER BY number DESC
"""
_CONTENT = """
SELECT CASE WHEN octet_length(payload) <= %(most)s THEN payload END, headers
FROM payload_version WHERE message_id = %(id)s AND number = %(number)s
UNION ALL
SELECT CASE WHEN octet_length(payload) <= %(most)s THEN payload END, headers
FROM body WHERE id = %(id)s AND %(number)s = 1 + (SELECT count(*) FROM payload_version WHERE message_id = %(id)s)
"""


@dataclass(frozen=True)
class VersionRow:
    """A version of a message's payload and headers; number 1 is what came in, the last one what it holds now.

    `until_attempt`: it was carried by the attempts up to this one, behind those of the version before. What replaced
    it, and when, is null for the last one.
    """

    number: int
    until_attempt: int | None
    replaced_at: datetime | None
    replaced_by: str | None
    operation_id: int | None
    payload_bytes: int


def versions(message_id: int, *, principal: Principal) -> list[VersionRow]:
    """Return the versions, newest first; raise NotFound."""
    if not require_message(message_id, principal):
        return [VersionRow(*one) for one in archived_versions(message_id)]
    return fetch(VersionRow, _VERSIONS, {"id": message_id})


def version_payload(message_id: int, number: int, *, principal: Principal) -> StoredBytes:
    """Return the payload of a version, to be read slice by slice; raise NotFound, PayloadRemoved."""
    if not require_message(message_id, principal, Permission.READ_PAYLOAD):
        return archived_version_payload(message_id, number)
    require_payload(message_id)
    found = stored_bytes("payload_version", "payload", message_id, number, where="message_id = %s AND number = %s")
    if found is None and _newest(message_id) == number:
        found = stored_bytes("body", "payload", message_id)
    return known(found, f"version {number} of message {message_id}")


def version_diff(message_id: int, number: int, *, principal: Principal, most_bytes: int) -> list[str] | None:
    """Return what a version has changed, as a unified diff with the one before; None where there is too much.

    Errors: `NotFound`, `PayloadRemoved`.
    """
    require_message(message_id, principal, Permission.READ_PAYLOAD)
    require_payload(message_id)
    sides = [_content(message_id, one, most_bytes) for one in (number - 1, number)]
    if sides[0] is None or sides[1] is None:
        raise NotFound(f"There is no version {number} of message {message_id} with one before it.")
    return payload_changes.diff(sides[0], sides[1])


def _newest(message_id: int) -> int:
    return int(fetch_values("SELECT 1 + count(*) FROM payload_version WHERE message_id = %s", [message_id])[0])


def _content(message_id: int, number: int, most_bytes: int) -> MessageContent | None:
    rows = fetch_rows(_CONTENT, {"id": message_id, "number": number, "most": most_bytes})
    return next((MessageContent(None if raw is None else bytes(raw), bytes(headers)) for raw, headers in rows), None)
