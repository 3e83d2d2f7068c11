"""The `dry_run` job: a rule is asked about stored messages, a range of ids a task. Nothing is changed."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import orjson
import psycopg
import pyarrow as pa
from pyspark.sql import SparkSession

from poisonadmin.rules.domain.content_conditions import MAX_JSON_BYTES, Subject
from poisonadmin.rules.domain.content_rules import ContentRule, ContentRules, compile_content_rule
from poisonadmin.rules.domain.dry_run import Found, IdRange, Trial
from poisonadmin.rules.domain.failure_rules import compile_failure_rule
from poisonadmin.rules.domain.json_schema import compile_schema
from poisonadmin.rules.domain.rules import RuleFailed, Stage
from workers.spark.schemas import TRIED_PART
from workers.spark.stored import StoredMessage, failures_in, messages_in


def try_rule(spark: SparkSession, trial: Trial, ranges: Sequence[IdRange]) -> list[Found]:
    """Return what the rule comes to in each range, in their order. The tasks read `DATABASE_URL` from their
    environment.
    """
    tasks = spark.range(0, len(ranges), 1, len(ranges))
    now = datetime.now(UTC)
    rows = tasks.mapInArrow(partial(_try_ranges, trial, tuple(ranges), now), TRIED_PART.spark).collect()
    found = [Found() for _ in ranges]
    for row in sorted(rows, key=lambda row: row.part):
        one = found[row.part]
        one.error = one.error or row.error
        if row.address is None:
            one.read = row.messages
        else:
            one.matched += row.messages
            one.places[row.address, row.group_id] = (row.messages, list(row.samples))
    return found


def _try_ranges(
    trial: Trial, ranges: Sequence[IdRange], now: datetime, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column(0).to_pylist():
            with psycopg.connect(os.environ["DATABASE_URL"], connect_timeout=5) as connection:
                found = _STAGES[trial.stage](connection, trial, ranges[part], now)
            rows = [
                {"part": part, "address": address, "group_id": group_id, "messages": count, "samples": samples}
                for (address, group_id), (count, samples) in found.places.items()
            ]
            rows.append({"part": part, "messages": found.read, "error": found.error})
            yield pa.RecordBatch.from_pylist(rows, schema=TRIED_PART.arrow)


def _before(connection: "psycopg.Connection[tuple[object, ...]]", trial: Trial, ids: IdRange, now: datetime) -> Found:
    found = Found()
    try:
        rule = compile_content_rule(trial.rule, compile_schema=compile_schema)
    except RuleFailed as failed:
        return Found(error=failed.why)
    rules = ContentRules([rule])
    for stored in messages_in(
        connection,
        ids,
        trial.address_ids,
        now=now,
        with_headers=rule.needs_headers,
        with_payload=rule.needs_body,
        max_payload_bytes=MAX_JSON_BYTES,
    ):
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


def _after(connection: "psycopg.Connection[tuple[object, ...]]", trial: Trial, ids: IdRange, _: datetime) -> Found:
    found = Found()
    try:
        rule = compile_failure_rule(trial.rule)
    except RuleFailed as failed:
        return Found(error=failed.why)
    for stored in failures_in(connection, ids, trial.address_ids):
        found.read += 1
        if rule.holds(stored):
            found.see(stored.address, stored.group_id, stored.id)
    return found


_STAGES: dict[Stage, Callable[["psycopg.Connection[tuple[object, ...]]", Trial, IdRange, datetime], Found]] = {
    Stage.BEFORE: _before,
    Stage.AFTER: _after,
}
