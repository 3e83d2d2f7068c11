"""One message: its bytes and their versions, its attempts, states and moves (newest first), its broker's report."""

from dataclasses import dataclass, replace
from datetime import datetime

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.domain.masking import Masks
from poisonadmin.core.queries.masking import addresses_of, masked, masks_of
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, NEWEST_FIRST, Key, Page, fetch_page, window
from poisonadmin.core.queries.rows import (
    StoredBytes,
    columns,
    fetch,
    fetch_one,
    fetch_rows,
    fetch_values,
    known,
    stored_bytes,
)
from poisonadmin.core.queries.scope import destinations_seen
from poisonadmin.core.queries.sql import Sql
from poisonadmin.decisions.operations.domain.actions import DECISION_EVENTS
from poisonadmin.decisions.queries import payload_changes
from poisonadmin.decisions.queries.payload_changes import MessageContent, masked_content
from poisonadmin.messages.domain.attempt import ShownAttempt
from poisonadmin.messages.queries import archived
from poisonadmin.messages.queries.archived import archived_version_payload, archived_versions
from poisonadmin.messages.queries.detail_rows import (
    AttemptRow,
    HistoryRow,
    HopRow,
    MessageDetail,
    Transport,
    json_object,
)
from poisonadmin.messages.queries.merged_groups import SEEN_AS
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, require_message
from poisonadmin.messages.queries.payload_removals import REMOVAL, REMOVAL_JOIN, require_payload

# The last move, while the message is where it has put it, and has not come home by it.
_LAST_MOVE = Sql(
    """LEFT JOIN LATERAL (
    SELECT hop.id, hop.from_address, hop.to_address, hop.queue, hop.reason FROM hop WHERE hop.message_id = m.id
    ORDER BY hop.id DESC LIMIT 1
) AS last ON last.to_address = a.name AND o.name <> a.name"""
)
# As the child of such a move carries them in its headers (delivery/commands/child_messages.py).
_ORIGIN = Sql(
    """CASE WHEN last.id IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
    '_AMQ_ORIG_ADDRESS', last.from_address,
    '_AMQ_ORIG_QUEUE', coalesce((SELECT earlier.queue FROM hop AS earlier WHERE earlier.message_id = m.id
        AND earlier.id < last.id AND earlier.to_address = last.from_address ORDER BY earlier.id DESC LIMIT 1),
        last.from_address),
    '_AMQ_ORIG_MESSAGE_ID', e.message_id,
    'MQDLH_Reason', CASE WHEN last.reason LIKE 'MQRC%' THEN last.reason END)) END"""
)
_CONFIRMATION = Sql(
    """LEFT JOIN confirmation c
 ON c.message_id = m.id AND c.attempt_number = m.attempt_number AND m.state = 'DLVD'"""
)
_DELIVERED_TO = Sql(
    """CASE WHEN m.state <> 'DLVD' THEN NULL WHEN c.confirmed_at IS NULL AND EXISTS (
    SELECT FROM attempt t JOIN destination s ON s.id = t.destination_id AND s.kind = ANY({brokers})
    WHERE t.message_id = m.id AND t.attempt_number = m.attempt_number) THEN 'broker' ELSE 'consumer' END""",
    brokers=list(BROKERS),
)
_BY_ATTEMPT = Key(("t.attempt_number",), (int,))
_BY_SEQ = Key(("seq",), (int,))


def get_message(message_id: int, *, principal: Principal) -> MessageDetail:
    """Return the message; raise NotFound."""
    principal.require(Permission.READ)
    sql = Sql(
        """SELECT {columns}, i.name AS intake_address, e.bookmark, e.received_by, e.parent_id,
        CASE WHEN {seen} THEN d.name END AS destination,
        b.headers AS header_bytes, last.queue, coalesce({origin}, '{{}}') AS origin,
        {delivered_to} AS delivered_to, c.confirm_by, c.confirmed_at, c.confirmed_by, c.note AS confirmation_note,
        {removal}, coalesce(w.note, '') AS note
        FROM message m {joins} JOIN address i ON i.id = e.intake_address_id JOIN body b ON b.id = m.id
        LEFT JOIN destination d ON d.id = a.destination_id {last_move} {confirmation}
        {removal_join} WHERE m.id = {id}""",
        columns=COLUMNS,
        seen=destinations_seen(principal, "d.id"),
        origin=_ORIGIN,
        delivered_to=_DELIVERED_TO,
        removal=REMOVAL,
        joins=JOINS,
        last_move=_LAST_MOVE,
        confirmation=_CONFIRMATION,
        removal_join=REMOVAL_JOIN,
        id=message_id,
    )
    found = fetch_one(MessageDetail, sql) if 0 < message_id <= MAX_ID else None
    if found is None:
        return masked([archived.detail(message_id, principal=principal)], principal)[0]
    if not principal.sees(found.address):
        raise NotFound(f"There is no message {message_id}.")
    return masked([found], principal)[0]


def masks_at(message_id: int, principal: Principal) -> Masks:
    """Return what is masked for the reader in a message; raise NotFound."""
    if not masks_of(principal):
        return Masks()
    found = get_message(message_id, principal=principal.as_reader)
    here = (found.address, found.original_address, found.intake_address)
    return masks_of(principal).at(*here, *addresses_of([message_id])[message_id])


def _masked_bytes(found: StoredBytes, masks: Masks) -> StoredBytes:
    if not masks:
        return found
    whole = masks.body(b"".join(found.slices))
    return StoredBytes(len(whole), iter([whole]))


def payload(message_id: int, *, principal: Principal) -> StoredBytes:
    """Return the payload, the bytes that the next delivery carries, to be read slice by slice.

    Errors: `NotFound`, `PayloadRemoved`.
    """
    if not require_message(message_id, principal, Permission.READ_PAYLOAD):
        return _masked_bytes(archived.payload(message_id), masks_at(message_id, principal))
    require_payload(message_id)
    found = stored_bytes("body", "payload", message_id)
    return _masked_bytes(known(found, f"message {message_id}"), masks_at(message_id, principal))


def payload_start(message_id: int, *, principal: Principal, most_bytes: int) -> bytes:
    """Return at most the first `most_bytes` of the payload, for a page; raise NotFound, PayloadRemoved."""
    if not require_message(message_id, principal, Permission.READ_PAYLOAD) or masks_at(message_id, principal):
        return b"".join(payload(message_id, principal=principal).slices)[:most_bytes]
    require_payload(message_id)
    found = fetch_values("SELECT substring(payload for %s) FROM body WHERE id = %s", [most_bytes, message_id])
    return bytes(found[0]) if found else b""


def attempts(
    message_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[AttemptRow]:
    """Return the failure log; raise NotFound, InvalidCursor."""
    if not require_message(message_id, principal):
        return _as_read(archived.attempts(message_id, principal=principal), message_id, principal)
    sql = Sql(
        """SELECT {columns}, n.name AS node, CASE WHEN {seen} THEN d.name END AS destination,
        {group} AS group_id, n.id AS node_id, n.host, n."end" AS node_end, c.is_isolation AS is_alone,
        {version} AS version
        FROM attempt t LEFT JOIN claim c ON c.id = t.claim_id
        LEFT JOIN node n ON n.claim_id = t.claim_id AND n.shard = t.shard
        LEFT JOIN destination d ON d.id = t.destination_id
        LEFT JOIN failure_group g ON g.fingerprint = t.fingerprint WHERE t.message_id = {id}""",
        columns=columns(ShownAttempt, "t"),
        seen=destinations_seen(principal, "d.id"),
        group=SEEN_AS,
        version=OF_ATTEMPT,
        id=message_id,
    )
    return _as_read(fetch_page(AttemptRow, sql, page=window(cursor, limit, _BY_ATTEMPT)), message_id, principal)


def _as_read(page: Page[AttemptRow], message_id: int, principal: Principal) -> Page[AttemptRow]:
    masks = masks_at(message_id, principal)
    return replace(page, results=[masks.row(row) for row in page.results]) if masks else page


def history(
    message_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[HistoryRow]:
    """Return the state changes; raise NotFound, InvalidCursor."""
    if not require_message(message_id, principal):
        return _without_quotes(archived.history(message_id), message_id, principal)
    sql = Sql(
        """SELECT seq, at, from_state, to_state, event, reason, attempt_number, actor, note, operation_id,
        {version} AS version FROM history WHERE message_id = {id}""",
        version=OF_CHANGE,
        id=message_id,
    )
    return _without_quotes(fetch_page(HistoryRow, sql, page=window(cursor, limit, _BY_SEQ)), message_id, principal)


def _without_quotes(page: Page[HistoryRow], message_id: int, principal: Principal) -> Page[HistoryRow]:
    """Return state changes whose notes that nobody wrote by hand, but that may be a consumer's words, are masked."""
    if not (masks := masks_at(message_id, principal)):
        return page
    rows = [row if row.event in DECISION_EVENTS else replace(row, note=masks.text(row.note)) for row in page.results]
    return replace(page, results=rows)


def hops(
    message_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[HopRow]:
    """Return the moves between addresses; raise NotFound, InvalidCursor."""
    if not require_message(message_id, principal):
        return archived.hops(message_id)
    sql = Sql("SELECT {columns} FROM hop WHERE message_id = {id}", columns=columns(HopRow, "hop"), id=message_id)
    return fetch_page(HopRow, sql, page=window(cursor, limit, NEWEST_FIRST))


def get_transport(message_id: int, *, principal: Principal) -> Transport:
    """Return what the message's broker reported of it; raise NotFound."""
    if not require_message(message_id, principal):
        return masks_at(message_id, principal).row(archived.transport(message_id))
    found = fetch_values("SELECT transport FROM body WHERE id = %s AND transport IS NOT NULL", [message_id])
    return masks_at(message_id, principal).row(Transport(json_object(found[0]) if found else None))


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
        return _masked_bytes(archived_version_payload(message_id, number), masks_at(message_id, principal))
    require_payload(message_id)
    found = stored_bytes("payload_version", "payload", message_id, number, where="message_id = %s AND number = %s")
    newest = Sql("SELECT 1 + count(*) FROM payload_version WHERE message_id = {id}", id=message_id)
    if found is None and fetch_values(newest)[0] == number:
        found = stored_bytes("body", "payload", message_id)
    shown = known(found, f"version {number} of message {message_id}")
    return _masked_bytes(shown, masks_at(message_id, principal))


def version_diff(message_id: int, number: int, *, principal: Principal, most_bytes: int) -> list[str] | None:
    """Return what a version has changed, as a unified diff with the one before; None where there is too much.

    Errors: `NotFound`, `PayloadRemoved`.
    """
    require_message(message_id, principal, Permission.READ_PAYLOAD)
    require_payload(message_id)
    sides = [_content(message_id, one, most_bytes) for one in (number - 1, number)]
    if sides[0] is None or sides[1] is None:
        raise NotFound(f"There is no version {number} of message {message_id} with one before it.")
    masks = masks_at(message_id, principal)
    return payload_changes.diff(masked_content(sides[0], masks), masked_content(sides[1], masks))


def _content(message_id: int, number: int, most_bytes: int) -> MessageContent | None:
    rows = fetch_rows(_CONTENT, {"id": message_id, "number": number, "most": most_bytes})
    return next((MessageContent(None if raw is None else bytes(raw), bytes(headers)) for raw, headers in rows), None)
