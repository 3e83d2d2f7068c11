"""What the store holds after intake, read for assertions."""

import json
from typing import Any

from django.db import connection


def rows(sql: str, *values: str | int) -> list[tuple[Any, ...]]:
    """Return what the query returns, every bytea as bytes."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [
            tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
            for row in cursor.fetchall()
        ]


def messages() -> dict[tuple[str, str], tuple[str, bytes]]:
    """Return (address, message_id) -> (state, payload) of every message."""
    found = rows(
        """SELECT address.name, envelope.message_id, message.state, body.payload
           FROM message JOIN envelope USING (id) JOIN body USING (id) JOIN address ON address.id = intake_address_id"""
    )
    return {(address, message_id): (state, payload) for address, message_id, state, payload in found}


def payloads() -> list[bytes]:
    """Return every message's payload in the order of their ids."""
    return [payload for (payload,) in rows("SELECT payload FROM message JOIN body USING (id) ORDER BY id")]


def rejected() -> list[tuple[int, str, bytes]]:
    """Return (line, code, raw) of every line set aside, in their order."""
    return rows("SELECT line, code, raw FROM rejected_line ORDER BY source_file_id NULLS FIRST, line")


def assert_whole() -> None:
    """Fail unless every message has all its parts, no part is left over, nothing is staged, and the counters agree."""
    ids = rows("SELECT id FROM message ORDER BY id")
    assert rows("SELECT id FROM envelope ORDER BY id") == ids
    assert rows("SELECT id FROM body ORDER BY id") == ids
    assert rows("SELECT message_id FROM history WHERE from_state IS NULL ORDER BY message_id") == ids
    assert rows("SELECT count(*) FROM staged_message") == [(0,)]
    assert rows(
        """SELECT address_id, state, reason, group_id, sum(delta) FROM (
               SELECT address_id, state, reason, group_id, delta FROM counter_delta
               UNION ALL SELECT address_id, state, reason, group_id, total FROM counter) AS counted
           GROUP BY 1, 2, 3, 4 HAVING sum(delta) <> 0 ORDER BY 1, 2, 3, 4"""
    ) == rows(
        "SELECT address_id, state, reason, group_id, count(*) FROM message GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
    )
    assert (
        rows(
            """SELECT message.id FROM message JOIN lane ON lane.id = lane_id
               WHERE state = 'TBDL' AND (lane.next_due IS NULL OR lane.next_due > due_at)"""
        )
        == []
    ), "a lane's floor is above a message that waits there"


def line(address: str = "orders.eu", **fields: object) -> bytes:
    """Return one line of NDJSON, with its newline."""
    return json.dumps({"address": address, "payload": "x", **fields}).encode() + b"\n"
