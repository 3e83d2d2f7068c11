"""What the example data writes past the commands: a source's files, and times that lie in the past."""

from django.db import connection
from django.utils import timezone

from poisonadmin.store.models.intake import FileState, RejectedLine, Source, SourceFile


def make_source() -> None:
    """Make a source with taken, waiting and broken files, and lines that were set aside."""
    now = timezone.now()
    source = Source.objects.create(
        name="nightly-export", kind="directory", config={"path": "/srv/exports/orders"}, last_success_at=now
    )
    for number, state in enumerate((FileState.TAKEN, FileState.TAKEN, FileState.BROKEN, FileState.SEEN)):
        file = SourceFile.objects.create(
            source=source,
            path=f"/srv/exports/orders/2026-11-{number + 16}.ndjson.gz",
            size_bytes=48_213_004 + number,
            modified_ns=number,
            state=state,
            accepted=120_400 if state == FileState.TAKEN else 0,
            duplicates=312 if state == FileState.TAKEN else 0,
            rejected=2 if number == 0 else 0,
            error="Not a gzip file: the first bytes are 3c 68 74 6d" if state == FileState.BROKEN else None,
            taken_at=now if state == FileState.TAKEN else None,
        )
        if number == 0:
            for line, code, detail, raw in (
                (
                    17,
                    "invalid_json",
                    "Expecting ',' delimiter at character 44.",
                    b'{"address": "orders.eu.created", "payload" 1}',
                ),
                (
                    90_311,
                    "invalid_address",
                    "'orders..eu' is not an address: a word between dots is empty.",
                    b'{"address": "orders..eu"}',
                ),
            ):
                RejectedLine.objects.create(
                    source=source,
                    source_file=file,
                    batch=f"file:{file.id}:0",
                    line=line,
                    code=code,
                    detail=detail,
                    raw=raw,
                )


def spread_over_the_last_hour() -> None:
    """Move what happened now back in time, message by message, and in the order in which it happened."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE history DISABLE TRIGGER USER")
        cursor.execute(
            """WITH whole AS (SELECT min(seq) AS first, greatest(max(seq) - min(seq), 1) AS span FROM history)
               UPDATE history SET at = now() - interval '55 min' * (1 - (seq - first)::float / span)
               FROM whole"""
        )
        cursor.execute("ALTER TABLE history ENABLE TRIGGER USER")
        cursor.execute(
            """UPDATE message m SET state_at = h.at, failed_at = CASE WHEN m.failed_at IS NULL THEN NULL ELSE h.at END
               FROM (SELECT DISTINCT ON (message_id) message_id, at FROM history ORDER BY message_id, seq DESC) h
               WHERE h.message_id = m.id"""
        )
        cursor.execute(
            """UPDATE envelope SET received_at = h.at FROM history h
               WHERE h.message_id = envelope.id AND h.from_state IS NULL"""
        )
        cursor.execute(
            """UPDATE attempt t SET finished_at = h.at, started_at = h.at - (t.finished_at - t.started_at)
               FROM history h
               WHERE h.message_id = t.message_id AND h.attempt_number = t.attempt_number
                 AND h.event IN ('delivered', 'failed', 'crashed', 'node_lost')"""
        )
        cursor.execute(
            """UPDATE node n SET started_at = t.first, heartbeat_at = t.last, ended_at = t.last
               FROM (SELECT claim_id, shard, min(started_at) AS first, max(finished_at) AS last
                     FROM attempt WHERE claim_id IS NOT NULL GROUP BY 1, 2) t
               WHERE n.ended_at IS NOT NULL AND t.claim_id = n.claim_id AND t.shard = n.shard"""
        )
