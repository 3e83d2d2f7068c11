"""Archived messages, as pages and the API show live ones. Callers have checked that they may be seen."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.paging import Page
from poisonadmin.core.queries.rows import StoredBytes, fetch, fetch_rows, fetch_values
from poisonadmin.core.queries.scope import destination_names_seen, destinations_seen
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.domain.attempt import SHOWN_COLUMNS
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.archived_index import require_archived, rows_of, rows_of_several
from poisonadmin.messages.queries.detail_rows import (
    AttemptRow,
    HistoryRow,
    HopRow,
    MessageDetail,
    Transport,
    json_object,
)
from poisonadmin.messages.queries.message_rows import COLUMNS, JOINS, MessageRow
from poisonadmin.messages.queries.payload_removals import removal_of, require_payload

_DESTINATION = """
SELECT CASE WHEN {seen} THEN d.name END, d.id IS NOT NULL
FROM address a LEFT JOIN destination d ON d.id = a.destination_id WHERE a.name = %s
"""
_GROUPS = """
SELECT fingerprint, coalesce(merged_into_id, id) FROM failure_group WHERE fingerprint = ANY(%s)
"""


def detail(message_id: int, *, principal: Principal) -> MessageDetail:
    """Return the message; raise NotFound, MessageErased, ArchiveUnreadable."""
    known = require_archived(message_id, principal)
    row = _message(message_id)
    removal = removal_of(message_id)
    moves = hops(message_id).results
    is_moved = bool(moves) and moves[0].to_address == row["address"] != (row["original_address"] or row["address"])
    released = sum(one["event"] == Event.RELEASED for one in rows_of(message_id, "history"))
    seen, own = destinations_seen(principal, "d.id")
    ((destination, has_destination),) = fetch_rows(_DESTINATION.format(seen=seen), [*own, row["address"]])
    confirmed = _confirmation(row)
    return MessageDetail(
        **_listed(row, known.address_status)
        | {"has_destination": has_destination, "attempts_begun": row["attempt_number"] - released},
        intake_address=row["intake_address"],
        bookmark=row["bookmark"],
        received_by=row["received_by"],
        parent_id=row["parent_id"],
        destination=destination,
        queue=moves[0].queue if is_moved else None,
        origin=_origin(moves, row["message_id"]) if is_moved else {},
        header_bytes=(row["headers"] or "{}").encode(),
        delivered_to=_delivered_to(row, confirmed),
        confirm_by=_moment(confirmed.get("confirm_by")),
        confirmed_at=_moment(confirmed.get("confirmed_at")),
        confirmed_by=confirmed.get("confirmed_by"),
        confirmation_note=confirmed.get("note"),
        payload_removed_at=removal.payload_removed_at if removal else None,
        payload_kept_days=removal.payload_kept_days if removal else None,
        payload_policy=removal.payload_policy if removal else None,
        note=row.get("note") or "",
    )


def _confirmation(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the confirmation of the message's last attempt, where that delivered it."""
    found = (json.loads(one["row"]) for one in _extras(row["id"], "confirmation") if row["state"] == State.DLVD)
    return next((one for one in found if one["attempt_number"] == row["attempt_number"]), {})


def _delivered_to(row: Mapping[str, Any], confirmed: Mapping[str, Any]) -> str | None:
    if row["state"] != State.DLVD:
        return None
    last = [
        one["destination"] for one in rows_of(row["id"], "attempts") if one["attempt_number"] == row["attempt_number"]
    ]
    kinds = fetch_values("SELECT kind FROM destination WHERE name = ANY(%s)", [last])
    return "broker" if not confirmed.get("confirmed_at") and set(kinds) & set(BROKERS) else "consumer"


def _origin(moves: Sequence[HopRow], message_id: str) -> dict[str, str]:
    """Return what the last of a message's moves, newest first, says as it says of a live message (detail.py)."""
    last, *former = moves
    queue = next((one.queue for one in former if one.to_address == last.from_address), None)
    found = {
        "_AMQ_ORIG_ADDRESS": last.from_address,
        "_AMQ_ORIG_QUEUE": queue or last.from_address,
        "_AMQ_ORIG_MESSAGE_ID": message_id,
    }
    return found | ({"MQDLH_Reason": last.reason} if last.reason.startswith("MQRC") else {})


def rows_of_ids(ids: Sequence[int]) -> list[MessageRow]:
    """Return the messages of these ids, live or archived, in the order of the ids; raise ArchiveUnreadable."""
    live = fetch(
        MessageRow,
        Sql(
            "SELECT {columns} FROM message m {joins} WHERE m.id = ANY({ids})",
            columns=COLUMNS,
            joins=JOINS,
            ids=list(ids),
        ),
    )
    found = {row.id: row for row in live}
    if left := [one for one in ids if one not in found]:
        statuses = dict(fetch_rows(_STATUSES, [left]))
        rows = rows_of_several(left, "messages", columns=_LISTED)
        found |= {row["id"]: MessageRow(**_listed(row, statuses[row["id"]])) for row in rows if row["id"] in statuses}
    return [found[one] for one in ids if one in found]


def payload(message_id: int) -> StoredBytes:
    """Return the payload, in one slice; raise PayloadRemoved."""
    require_payload(message_id)
    return _bytes(_message(message_id)["payload"] or b"")


def transport(message_id: int) -> Transport:
    """Return what the message's broker reported of it."""
    found = _message(message_id)["transport"]
    return Transport(None if found is None else json_object(found))


def attempts(message_id: int, *, principal: Principal) -> Page[AttemptRow]:
    """Return the failure log, newest first, whole. Of nodes and crashes it has the node's name."""
    rows = rows_of(message_id, "attempts")
    seen = destination_names_seen(principal)
    groups = dict(fetch_rows(_GROUPS, [[row["fingerprint"] for row in rows if row["fingerprint"]]]))
    ends = [one["until_attempt"] for one in _versions(message_id)]
    found = [
        AttemptRow(
            **_shown(row),
            node=row["node"],
            destination=row["destination"] if seen is None or row["destination"] in seen else None,
            group_id=groups.get(row["fingerprint"]),
            node_id=None,
            host=None,
            node_end=None,
            is_alone=None,
            version=1 + sum(end < row["attempt_number"] for end in ends),
        )
        for row in rows
    ]
    return Page(sorted(found, key=lambda row: -row.attempt_number), None, None)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of an attempt that are shown; a file has those that there were when it was written."""
    return {name: row.get(name) for name in SHOWN_COLUMNS}


def history(message_id: int) -> Page[HistoryRow]:
    """Return the state changes, newest first, whole."""
    rows = [
        HistoryRow(**{name: value for name, value in row.items() if name != "message_id"}, version=None)
        for row in rows_of(message_id, "history")
    ]
    return Page(sorted(rows, key=lambda row: -row.seq), None, None)


def hops(message_id: int) -> Page[HopRow]:
    """Return the moves between addresses, newest first, whole."""
    rows = [json.loads(one["row"]) for one in _extras(message_id, "hop")]
    found = [
        HopRow(**{name: row[name] for name in HopRow.__dataclass_fields__} | {"at": _moment(row["at"])}) for row in rows
    ]
    return Page(sorted(found, key=lambda row: -row.id), None, None)


def archived_versions(message_id: int) -> list[tuple[int, int | None, datetime | None, str | None, int | None, int]]:
    """Return of each version, newest first, the fields of a `VersionRow`."""
    former = _versions(message_id)
    newest = (1 + len(former), None, None, None, None, int(_message(message_id)["payload_bytes"]))
    return [
        newest,
        *(
            (
                row["number"],
                row["until_attempt"],
                _moment(row["replaced_at"]),
                row["replaced_by"],
                row["operation_id"],
                len(_unhexed(row["payload"])),
            )
            for row in sorted(former, key=lambda row: -int(row["number"]))
        ),
    ]


def archived_version_payload(message_id: int, number: int) -> StoredBytes:
    """Return the payload of a version, in one slice; raise NotFound, PayloadRemoved."""
    require_payload(message_id)
    former = _versions(message_id)
    if number == 1 + len(former):
        return payload(message_id)
    for row in former:
        if row["number"] == number:
            return _bytes(_unhexed(row["payload"]))
    raise NotFound(f"There is no version {number} of message {message_id}.")


# Fields of a `MessageRow` that the files have by the same name.
_AS_FILED = (
    "id",
    "message_id",
    "address",
    "state",
    "reason",
    "candidate",
    "attempt_number",
    "failure_count",
    "crash_count",
    "state_at",
    "received_at",
    "failed_at",
    "expires_at",
    "conversation_id",
    "content_type",
    "payload_bytes",
    "original_address",
    "group_id",
    "owner",
)
_LISTED = (*_AS_FILED, "failure", "keys", "tags")
_STATUSES = """
SELECT r.id, a.status FROM archived_message AS r JOIN address AS a ON a.id = r.address_id WHERE r.id = ANY(%s)
"""


def _listed(row: Mapping[str, Any], address_status: str) -> dict[str, Any]:
    """Return the fields of a `MessageRow`."""
    return {name: row[name] for name in _AS_FILED} | {
        "due_at": None,
        "group_title": row["failure"],
        "business_keys": json.loads(row["keys"] or "{}"),
        "attempts_begun": row["attempt_number"],
        "address_status": address_status,
        "has_destination": True,  # it is final, and waits for none
        "tags": json.loads(row["tags"] or "[]"),
        "archived": True,
        "predecessor_id": None,
    }


def _message(message_id: int) -> Mapping[str, Any]:
    return rows_of(message_id, "messages")[0]


def _extras(message_id: int, kind: str) -> list[dict[str, Any]]:
    return [row for row in rows_of(message_id, "extras") if row["kind"] == kind]


def _versions(message_id: int) -> Sequence[dict[str, Any]]:
    return [json.loads(one["row"]) for one in _extras(message_id, "payload_version")]


def _bytes(value: bytes) -> StoredBytes:
    return StoredBytes(len(value), iter([value]))


def _unhexed(text: str) -> bytes:
    """Return the bytes that PostgreSQL writes into JSON as `\\x…`."""
    return bytes.fromhex(text.removeprefix("\\x"))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
