"""The `dry_run` job: a rule is asked about stored messages, in ranges of ids. Nothing is changed."""

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import orjson
import psycopg
from psycopg import sql
from psycopg.rows import class_row
from pyspark.sql import SparkSession

from poisonadmin.core.domain.secret_settings import database_url
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.rules.domain.content_rules import (
    MAX_JSON_BYTES,
    ContentRule,
    ContentRules,
    Subject,
    compile_content_rule,
)
from poisonadmin.rules.domain.dry_run import Found, Trial
from poisonadmin.rules.domain.failure_rules import compile_failure_rule
from poisonadmin.rules.domain.json_schema import compile_schema
from poisonadmin.rules.domain.rules import RuleFailed, Stage
from workers.delivery.sessions import Session
from workers.spark.pieces import do_pieces
from workers.spark.tables.columns import RowSchema

# A row a place that the rule matched in a part, and one more with what was read, whose `address` is null.
TRIED_PART = RowSchema("part long, address string, group_id long, messages long, samples array<long>, error string")
_ROWS = 2000


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


# The range is said of each table that is joined: the planner then reads them side by side in the order of their ids,
# and looks none up row by row.
_MESSAGES = sql.SQL("""
SELECT message.id, address.name AS address, message.group_id, content_type, payload_bytes,
       extract(epoch FROM message.expires_at - %(now)s)::float8 * 1000 AS expires_in_ms,
       {headers} AS headers, {payload} AS payload
FROM message JOIN address ON address.id = message.address_id
     JOIN envelope ON envelope.id = message.id AND envelope.id > %(after)s AND envelope.id <= %(until)s {body}
WHERE message.id > %(after)s AND message.id <= %(until)s
      AND message.state IN ('TBDL', 'NDLV') AND message.address_id = ANY(%(addresses)s)
ORDER BY message.id
""")
_BODY = sql.SQL("JOIN body ON body.id = message.id AND body.id > %(after)s AND body.id <= %(until)s")
_HEADERS = sql.SQL("body.headers")
_PAYLOAD = sql.SQL("CASE WHEN payload_bytes <= %(most)s THEN body.payload END")
_LEFT_OUT = sql.SQL("NULL::bytea")
_FAILURES = """
SELECT message.id, address.name AS address, message.group_id, failed.attempt_number, message.failure_count AS failures,
       failed.error_class, failed.cause_class, failed.error_message, failed.status_code,
       destination.name AS destination, coalesce(annotation.tags, '{}') AS tags
FROM message JOIN address ON address.id = message.address_id
     CROSS JOIN LATERAL (
         SELECT * FROM attempt WHERE attempt.message_id = message.id AND outcome = 'failed'
         ORDER BY attempt_number DESC LIMIT 1
     ) AS failed
     LEFT JOIN destination ON destination.id = failed.destination_id
     LEFT JOIN annotation ON annotation.message_id = message.id
WHERE message.id > %(after)s AND message.id <= %(until)s
      AND message.state IN ('TBDL', 'NDLV') AND message.address_id = ANY(%(addresses)s)
ORDER BY message.id
"""


def _messages_in(
    connection: Session, ids: IdRange, addresses: Sequence[int], rule: ContentRule, now: datetime
) -> Iterator[StoredMessage]:
    """Yield the messages of the range on these addresses in the order of their ids, a few thousand rows at a time.

    What the rule does not need is left in the database, and so is a payload that is larger than `MAX_JSON_BYTES`.
    """
    statement = _MESSAGES.format(
        headers=_HEADERS if rule.needs_headers else _LEFT_OUT,
        payload=_PAYLOAD if rule.needs_body else _LEFT_OUT,
        body=_BODY if rule.needs_headers or rule.needs_body else sql.SQL(""),
    )
    values = {
        "after": ids.after, "until": ids.until, "addresses": list(addresses), "now": now, "most": MAX_JSON_BYTES,
    }  # fmt: skip
    with (
        connection.transaction(),
        connection.cursor("messages", row_factory=class_row(StoredMessage), binary=True) as cursor,
    ):
        cursor.itersize = _ROWS
        yield from cursor.execute(statement, values)


def _failures_in(connection: Session, ids: IdRange, addresses: Sequence[int]) -> Iterator[StoredFailure]:
    """Yield the last failure of each message of the range on these addresses."""
    values = {"after": ids.after, "until": ids.until, "addresses": list(addresses)}
    with connection.transaction(), connection.cursor("failures", row_factory=class_row(StoredFailure)) as cursor:
        cursor.itersize = _ROWS
        yield from cursor.execute(_FAILURES, values)


def try_rule(spark: SparkSession, trial: Trial, ranges: Sequence[IdRange]) -> list[Found]:
    """Return what the rule comes to in each range, in their order. The tasks read `DATABASE_URL` from their
    environment.
    """
    rows = do_pieces(spark, len(ranges), partial(_try_range, trial, tuple(ranges), datetime.now(UTC)), TRIED_PART)
    found = [Found() for _ in ranges]
    for row in sorted(rows, key=lambda row: row["part"]):
        one = found[row["part"]]
        one.error = one.error or row["error"]
        if row["address"] is None:
            one.read = row["messages"]
        else:
            one.matched += row["messages"]
            one.places[row["address"], row["group_id"]] = (row["messages"], list(row["samples"]))
    return found


def _try_range(trial: Trial, ranges: Sequence[IdRange], now: datetime, part: int) -> list[dict[str, Any]]:
    with psycopg.connect(database_url(os.environ), connect_timeout=5) as connection:
        if trial.stage is Stage.BEFORE:
            found = _before(connection, trial, ranges[part], now)
        else:
            found = _after(connection, trial, ranges[part])
    places = [
        {"part": part, "address": address, "group_id": group_id, "messages": count, "samples": samples}
        for (address, group_id), (count, samples) in found.places.items()
    ]
    return [*places, {"part": part, "messages": found.read, "error": found.error}]


def _before(connection: Session, trial: Trial, ids: IdRange, now: datetime) -> Found:
    found = Found()
    try:
        rule = compile_content_rule(trial.rule, compile_schema=compile_schema)
    except RuleFailed as failed:
        return Found(error=failed.why)
    rules = ContentRules([rule])
    for stored in _messages_in(connection, ids, trial.address_ids, rule, now):
        found.read += 1
        if rules.ask(stored.address, _subject(stored, rule)) is not None:
            found.see(stored.address, stored.group_id, stored.id)
        elif rules.failed:
            found.error = f"Message {stored.id}: {rules.failed[trial.rule.id].why}"
            break
    return found


def _subject(stored: StoredMessage, rule: ContentRule) -> Subject:
    return Subject(
        stored.payload or b"",
        loads=orjson.loads,
        content_type=stored.content_type,
        headers=json.loads(stored.headers) if rule.needs_headers and stored.headers else None,
        expires_in_ms=stored.expires_in_ms,
        size=stored.payload_bytes,
    )


def _after(connection: Session, trial: Trial, ids: IdRange) -> Found:
    found = Found()
    try:
        rule = compile_failure_rule(trial.rule)
    except RuleFailed as failed:
        return Found(error=failed.why)
    for stored in _failures_in(connection, ids, trial.address_ids):
        found.read += 1
        if rule.holds(stored):
            found.see(stored.address, stored.group_id, stored.id)
    return found
