"""Stored messages, read by a task through psycopg: no JDBC, no credentials in a plan."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import psycopg
from psycopg.rows import class_row

from poisonadmin.rules.domain.dry_run import IdRange

_ROWS = 2000

_WAITING = "message.state IN ('TBDL', 'NDLV') AND message.address_id = ANY(%(addresses)s)"


def _range(table: str) -> str:
    """Return the range's condition. Said of each table that is joined: the planner then reads them side by side in the
    order of their ids, and looks none up row by row."""
    return f"{table}.id > %(after)s AND {table}.id <= %(until)s"


class StoredMessage(NamedTuple):
    """A message that waits or is undecided. `headers` and `payload` are None where they were not asked for."""

    id: int
    address: str
    group_id: int | None
    content_type: str
    payload_bytes: int
    expires_in_ms: float | None
    headers: bytes | None
    payload: bytes | None


class StoredFailure(NamedTuple):
    """The last failed attempt of a message that waits or is undecided."""

    id: int
    address: str
    group_id: int | None
    attempt_number: int
    failures: int
    error_class: str | None
    cause_class: str | None
    error_message: str | None
    status_code: int | None
    destination: str | None
    tags: list[str]


_FAILURES = f"""
SELECT message.id, address.name AS address, message.group_id, failed.attempt_number, message.failure_count AS failures,
       failed.error_class, failed.cause_class, failed.error_message, failed.status_code,
       destination.name AS destination, coalesce(message_tag.tags, '{{}}') AS tags
FROM message JOIN address ON address.id = message.address_id
     CROSS JOIN LATERAL (
         SELECT * FROM attempt WHERE attempt.message_id = message.id AND outcome = 'failed'
         ORDER BY attempt_number DESC LIMIT 1
     ) AS failed
     LEFT JOIN destination ON destination.id = failed.destination_id
     LEFT JOIN message_tag ON message_tag.message_id = message.id
WHERE {_range("message")} AND {_WAITING} ORDER BY message.id
"""  # noqa: S608  (fragments are constants)


def messages_in(
    connection: "psycopg.Connection[tuple[object, ...]]",
    ids: IdRange,
    addresses: Sequence[int],
    *,
    now: datetime,
    with_headers: bool = True,
    with_payload: bool = True,
    max_payload_bytes: int,
) -> Iterator[StoredMessage]:
    """Yield the messages of the range on these addresses in the order of their ids, a few thousand rows at a time.

    A larger payload than `max_payload_bytes` is left in the database.
    """
    headers = "body.headers" if with_headers else "NULL::bytea"
    payload = "CASE WHEN payload_bytes <= %(most)s THEN body.payload END" if with_payload else "NULL::bytea"
    body = f"JOIN body ON body.id = message.id AND {_range('body')}" if with_headers or with_payload else ""
    statement = f"""
        SELECT message.id, address.name AS address, message.group_id, content_type, payload_bytes,
               extract(epoch FROM message.expires_at - %(now)s)::float8 * 1000 AS expires_in_ms,
               {headers} AS headers, {payload} AS payload
        FROM message JOIN address ON address.id = message.address_id
             JOIN envelope ON envelope.id = message.id AND {_range("envelope")} {body}
        WHERE {_range("message")} AND {_WAITING} ORDER BY message.id
    """  # noqa: S608  (fragments are constants)
    values = {
        "after": ids.after, "until": ids.until, "addresses": list(addresses), "now": now, "most": max_payload_bytes,
    }  # fmt: skip
    with (
        connection.transaction(),
        connection.cursor("messages", row_factory=class_row(StoredMessage), binary=True) as cursor,
    ):
        cursor.itersize = _ROWS
        yield from cursor.execute(statement, values)


def failures_in(
    connection: "psycopg.Connection[tuple[object, ...]]", ids: IdRange, addresses: Sequence[int]
) -> Iterator[StoredFailure]:
    """Yield the last failure of each message of the range on these addresses."""
    values = {"after": ids.after, "until": ids.until, "addresses": list(addresses)}
    with connection.transaction(), connection.cursor("failures", row_factory=class_row(StoredFailure)) as cursor:
        cursor.itersize = _ROWS
        yield from cursor.execute(_FAILURES, values)
