"""Payloads and headers are changed, and what they were before is kept.

`body` has what the next delivery carries, so that whatever reads it goes on as before. `payload_version` has each
version before that one; a version carried the attempts that were made until it was replaced.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson
from django.db.backends.utils import CursorWrapper

from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.decisions.queries import payload_changes
from poisonadmin.decisions.queries.payload_changes import MAX_PATCHED_BYTES, Changed, NotChanged, PayloadChange
from poisonadmin.messages.domain.business_keys import extract, parsed_keys
from poisonadmin.policies.queries import policy_index

# Their bytes are held in memory together.
_MESSAGES_A_STEP = 20

_REPLACE = partial(
    named_sql,
    """
WITH changed AS ({changed}), kept AS (
    INSERT INTO payload_version (message_id, number, headers, payload, transport, until_attempt, replaced_by,
                                 operation_id)
    SELECT body.id, 1 + (SELECT count(*) FROM payload_version AS v WHERE v.message_id = body.id), body.headers,
           body.payload, body.transport, message.attempt_number, %(actor)s, %(operation)s
    FROM changed JOIN body ON body.id = changed.id JOIN message ON message.id = changed.id
), sized AS (
    UPDATE envelope SET payload_bytes = length(changed.payload) FROM changed WHERE envelope.id = changed.id
)
UPDATE body SET payload = changed.payload, headers = changed.headers, transport = changed.transport
FROM changed WHERE body.id = changed.id
RETURNING body.id
""",
)
_CHANGE = _REPLACE(
    changed=raw(
        "SELECT * FROM unnest(%(ids)s::bigint[], %(payloads)s::bytea[], %(headers)s::bytea[],"
        " %(transports)s::bytea[]) AS one (id, payload, headers, transport)"
    ),
)
_PUT_BACK = _REPLACE(
    changed=raw("""
    SELECT message.id, former.payload, former.headers, former.transport
    FROM (
        SELECT id FROM message
        WHERE id = ANY(%(ids)s) AND state = 'TBDL' AND operation_id = %(operation)s ORDER BY id FOR UPDATE
    ) AS message CROSS JOIN LATERAL (
        SELECT * FROM payload_version AS v WHERE v.message_id = message.id ORDER BY number DESC LIMIT 1
    ) AS former
    WHERE former.operation_id = %(operation)s
"""),
)
_READ_KEYED = """
SELECT envelope.id, address.name, CASE WHEN payload_bytes <= %(most)s THEN body.payload ELSE '' END,
       body.headers
FROM envelope JOIN body ON body.id = envelope.id JOIN address ON address.id = envelope.intake_address_id
WHERE envelope.id = ANY(%(ids)s)
"""
_KEYS = """
INSERT INTO business_key (message_id, name, value)
SELECT * FROM unnest(%(ids)s::bigint[], %(names)s::text[], %(values)s::text[])
ON CONFLICT (message_id, name) DO UPDATE SET value = excluded.value
"""


def change(
    cursor: CursorWrapper, ids: Sequence[int], wanted: PayloadChange, *, actor: str, operation_id: int
) -> dict[int, NotChanged]:
    """Change those of the messages, all locked, that the change applies to; return why not, for the others."""
    refused: dict[int, NotChanged] = {}
    for start in range(0, len(ids), _MESSAGES_A_STEP):
        changed: dict[int, Changed] = {}
        for found in payload_changes.read(ids[start : start + _MESSAGES_A_STEP]):
            try:
                changed[found.id] = wanted.apply(found.content, target=found.target, most_bytes=found.most_bytes)
            except NotChanged as error:
                refused[found.id] = error
        if changed:
            values: dict[str, Any] = {
                "ids": list(changed),
                "payloads": [one.payload for one in changed.values()],
                "headers": [one.headers for one in changed.values()],
                "transports": [one.transport for one in changed.values()],
            }
            cursor.execute(str(_CHANGE), values | {"actor": actor, "operation": operation_id})
            _write_keys(cursor, list(changed))
    return refused


def put_back(cursor: CursorWrapper, ids: Sequence[int], *, actor: str, operation_id: int) -> None:
    """Give what waits for this operation the payload that it had before it, as a new version."""
    cursor.execute(str(_PUT_BACK), {"ids": list(ids), "actor": actor, "operation": operation_id})
    _write_keys(cursor, [row[0] for row in cursor.fetchall()])


def _write_keys(cursor: CursorWrapper, ids: Sequence[int]) -> None:
    """Write the business keys of what the messages hold now; one that is there no longer keeps its value."""
    policies = policy_index()
    rows: list[tuple[int, str, str]] = []
    for start in range(0, len(ids), _MESSAGES_A_STEP):
        some = list(ids[start : start + _MESSAGES_A_STEP])
        cursor.execute(_READ_KEYED, {"ids": some, "most": MAX_PATCHED_BYTES})
        for message_id, address, payload, headers in cursor.fetchall():
            keys = parsed_keys(policies.resolve(address).policy.business_keys)
            if keys:
                found = extract(keys, bytes(payload), json.loads(bytes(headers)), loads=orjson.loads)
                rows += [(message_id, name, value) for name, value in found.items()]
    if rows:
        numbers, names, values = (list(column) for column in zip(*rows, strict=True))
        cursor.execute(_KEYS, {"ids": numbers, "names": names, "values": values})
