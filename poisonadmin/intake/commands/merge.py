"""The merge: staged rows become messages, whole batch by whole batch, and nobody else makes messages out of them.

Dead letters become NDLV messages with the failure that they had before import.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import F

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.commands import locks
from poisonadmin.core.commands.locks import TransactionRetry, retried
from poisonadmin.core.domain.locks import Lock
from poisonadmin.core.queries.sql import named_sql, raw
from poisonadmin.groups.commands import failure_groups
from poisonadmin.intake.commands.returned import Returned, open_died_again, open_returned
from poisonadmin.intake.commands.staged import NAMED_CONFLICTS, BatchOrigin, Conflict, put_duplicates_aside
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.admission import refuse_of_batch
from poisonadmin.messages.commands.oversize import SIZES
from poisonadmin.messages.commands.transitions import ChosenRows, StatementParts, enter
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.store.models.intake import Source, SourceFile

# A report a row, parsed once: of the messages in `ids`, which died of the same at the same time. `told` is what was
# handed in, the rest is attempt 0 (domain/staged_rows.py).
_REPORTS = """
report AS MATERIALIZED (
    SELECT same.ids, same.address, one.*, one.told ->> 'reason' AS note,
           (one.told ->> 'delivery_count')::int AS delivery_count,
           one.told ->> 'original_address' AS original_address,
           LEAST((one.told ->> 'failed_at')::timestamptz, now()) AS failed_at
    FROM (
        SELECT address, dead_letter, array_agg(id ORDER BY id) AS ids
        FROM staged_message WHERE batch = %(batch)s AND dead_letter IS NOT NULL GROUP BY address, dead_letter
    ) AS same CROSS JOIN LATERAL jsonb_to_record(convert_from(same.dead_letter, 'UTF8')::jsonb)
         AS one(told jsonb, error_class text, cause_class text, error_message text, stack text, fingerprint text,
                title text, moves jsonb)
)"""

_NOTED = "told AS MATERIALIZED (SELECT id, note FROM report CROSS JOIN LATERAL unnest(ids) AS id ORDER BY id)"

# A group, address and hour a row: thousands of dead letters died of a handful of failures.
_SEEN = str(
    named_sql(
        """WITH {reports}
SELECT fingerprint, min(title), min(error_class), min(ids[1]), address.id, min(failed_at), max(failed_at),
       sum(cardinality(ids))
FROM report JOIN address ON address.name = report.address
GROUP BY fingerprint, address.id, date_trunc('hour', failed_at)""",
        reports=raw(_REPORTS),
    )
)

# Each history row has a note of its own. Joining it to what was inserted, which the planner takes for a row or two,
# made 20,000 dead letters take 14 s.
_IMPORT = enter(
    Event.IMPORTED,
    State.NDLV,
    reason=Reason.IMPORTED,
    columns={
        "id": "died.id",
        "address_id": "here.id",
        "lane_id": "lane.id",
        "failure_count": "coalesce(report.delivery_count, 0)",
        "failed_at": "report.failed_at",
        "group_id": "failure_group.id",
        "original_address_id": "original.id",
    },
    chosen=ChosenRows(
        """report JOIN address AS here ON here.name = report.address
         JOIN lane ON lane.address_id = here.id AND lane.is_plain
         LEFT JOIN address AS original ON original.name = report.original_address
         LEFT JOIN failure_group ON failure_group.fingerprint = report.fingerprint
         CROSS JOIN LATERAL unnest(report.ids) AS died (id)""",
        before=f"{_REPORTS}, {_NOTED}",
    ),
    noted="told",
    parts=StatementParts(
        beside="""first_attempt AS (
    INSERT INTO attempt (message_id, attempt_number, finished_at, outcome, error_class, cause_class, error_message,
                         stack, fingerprint, title)
    SELECT id, 0, failed_at, 'imported', error_class, cause_class, error_message, stack, fingerprint, title
    FROM report CROSS JOIN LATERAL unnest(ids) AS id
), first_hop AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by, at)
    SELECT id, original_address, address, coalesce(note, 'imported'), %(actor)s, failed_at
    FROM report CROSS JOIN LATERAL unnest(ids) AS id WHERE original_address <> address
), hops_before AS (
    INSERT INTO hop (message_id, from_address, to_address, reason, by, times, at)
    SELECT id, move.queue, move."to", move.reason, (SELECT coalesce(
               (SELECT kind FROM source WHERE source.id = %(source)s), 'broker')), move.count, move.at
    FROM report CROSS JOIN LATERAL (
        SELECT move.queue, coalesce(move."to", lead(move.queue) OVER (ORDER BY place), report.address) AS "to",
               move.reason, move.count, coalesce(move.at, now()) AS at, place
        FROM ROWS FROM (
             jsonb_to_recordset(report.moves) AS (queue text, reason text, at timestamptz, count int, "to" text)
        ) WITH ORDINALITY AS move (queue, reason, at, count, "to", place)
    ) AS move CROSS JOIN LATERAL unnest(ids) AS id
    WHERE report.moves IS NOT NULL ORDER BY id, place
)""",
    ),
)


def import_dead_letters(cursor: CursorWrapper, batch: str, actor: str, source_id: int | None = None) -> None:
    """Write message, history, attempt 0, hops and counters of the batch's dead letters; count them into their groups.

    `source_id`: the broker source that they are from, whose moves are hops of theirs.
    """
    values = {"batch": batch, "actor": actor, "source": source_id}
    cursor.execute(_SEEN, values)
    failure_groups.ensure(cursor, [failure_groups.Seen(*row) for row in cursor.fetchall()])
    cursor.execute(_IMPORT, values)


@dataclass(frozen=True)
class Merged:
    """The result of a batch. `conflicts` of them had the id of another message; the first thousand are named.

    `returned` messages are ours, delivered before, and opened again.
    """

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    named_conflicts: tuple[Conflict, ...] = field(default=())
    returned: int = 0

    def __add__(self, other: "Merged") -> "Merged":
        return Merged(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.conflicts + other.conflicts,
            (self.named_conflicts + other.named_conflicts)[:NAMED_CONFLICTS],
            self.returned + other.returned,
        )

    @property
    def total(self) -> int:
        """Return how many rows have found their place."""
        return self.accepted + self.duplicates + self.conflicts + self.returned


_NAMES = """
SELECT address, count(*), count(dead_letter) FROM staged_message WHERE batch = %(batch)s GROUP BY address
"""

_ORIGINALS = """
SELECT DISTINCT convert_from(dead_letter, 'UTF8')::jsonb -> 'told' ->> 'original_address'
FROM staged_message
WHERE batch = %(batch)s AND dead_letter IS NOT NULL AND position('"original_address":'::bytea IN dead_letter) > 0
"""

# Who comes first in the batch wins. The narrow rows of a batch are sorted in a few milliseconds.
_TAKE_IDS = """
INSERT INTO envelope (id, intake_address_id, message_id, conversation_id, bookmark, content_type, payload_bytes,
                      expires_at, received_by)
SELECT staged.id, address.id, staged.message_id, staged.conversation_id, staged.bookmark, staged.content_type,
       staged.payload_bytes, staged.expires_at, %(received_by)s
FROM staged_message AS staged JOIN address ON address.name = staged.address
WHERE staged.batch = %(batch)s ORDER BY staged.id
"""
_TAKE_FREE_IDS = f"{_TAKE_IDS} ON CONFLICT (intake_address_id, message_id) DO NOTHING"

_ENQUEUE = enter(
    Event.ENQUEUED,
    None,
    columns={
        "id": "staged.id",
        "address_id": "address.id",
        "lane_id": "lane.id",
        "state": f"CASE WHEN is_oversized THEN '{State.NDLV}' ELSE '{State.TBDL}' END",
        "reason": f"CASE WHEN is_oversized THEN '{Reason.OVERSIZED}' END",
        "due_at": "CASE WHEN NOT is_oversized THEN now() END",
        "expires_at": "CASE WHEN NOT is_oversized THEN staged.expires_at END",
    },
    chosen="""staged_message AS staged JOIN address ON address.name = staged.address
         JOIN lane ON lane.address_id = address.id AND lane.is_plain
         CROSS JOIN LATERAL (SELECT staged.payload_bytes > address.max_payload_bytes AS is_oversized) AS measured
    WHERE staged.batch = %(batch)s AND staged.dead_letter IS NULL""",
    parts=StatementParts(
        shows=("lane_id", "due_at"),
        note=SIZES,
        then="SELECT lane_id, min(due_at) FROM changed WHERE state = 'TBDL' GROUP BY lane_id",
    ),
)


def merge_staged(
    batch: str,
    *,
    actor: str,
    received_by: str | None = None,
    source_file_id: int | None = None,
    source_id: int | None = None,
) -> Merged:
    """Make messages of everything staged under `batch`, in one transaction, and leave nothing staged there.

    Each is TBDL and due now, NDLV `imported` where it is a dead letter, or NDLV `oversized` where its address takes
    less. Of equal (address, message_id) the first one stays: the same body again is a duplicate, another body is a
    conflict and goes to `rejected_line`. A batch that is empty, or merged already, comes to nothing.
    `source_file_id`: the file to count into. `source_id`: the broker source; what we had delivered is then known by the
    id that we sent with it, and what the broker adds to headers on the way makes no other body.
    Two merges that wait for each other's ids are told apart by the database; the loser is merged once more, unless a
    transaction of the caller's is open.
    """
    values = {"batch": batch, "actor": actor, "received_by": received_by or actor, "note": None}
    return retried(lambda: _merge(batch, values, BatchOrigin(source_file_id, source_id)))


def _merge(batch: str, values: dict[str, Any], origin: BatchOrigin) -> Merged:
    with transaction.atomic(), connection.cursor() as cursor:
        locks.hold(cursor, Lock.STAGED_BATCH, _batch_key(cursor, batch))
        back = Returned()
        if origin.source_id is not None:
            back = open_returned(cursor, batch, values["actor"], origin.source_id)
        cursor.execute(_NAMES, values)
        names = cursor.fetchall()
        merged, woken = _merge_rows(cursor, names, values, origin) if names else (Merged(), {})
        merged += Merged(duplicates=back.known, returned=back.opened)
        _count(merged, origin)
        schedule.schedule_earliest(cursor, woken)
    return merged


def _merge_rows(
    cursor: CursorWrapper, names: Sequence[tuple[str, int, int]], values: dict[str, Any], origin: BatchOrigin
) -> tuple[Merged, dict[int, datetime]]:
    """Merge what is staged, by address so many and dead letters among them; return also when which lane is due."""
    staged, dead = sum(row[1] for row in names), sum(row[2] for row in names)
    _ensure(cursor, [row[0] for row in names], values if dead else None)
    lost = staged - _take_ids(cursor, values)
    back = Returned()
    if lost and origin.source_id is not None:
        back = open_died_again(cursor, values["batch"], values["actor"], origin.source_id)
        lost -= back.opened + back.known
    found, duplicates, conflicts = put_duplicates_aside(cursor, values["batch"], origin) if lost else (0, 0, ())
    if found != lost:
        raise TransactionRetry("A message went away between losing an id to it and looking at it.")
    if dead:
        import_dead_letters(cursor, values["batch"], values["actor"], origin.source_id)
    woken: dict[int, datetime] = {}
    if staged > dead:
        cursor.execute(_ENQUEUE, values)
        woken = dict(cursor.fetchall())
        refuse_of_batch(cursor, values["batch"], actor=values["actor"])
    cursor.execute("DELETE FROM staged_message WHERE batch = %(batch)s", values)
    accepted = staged - lost - back.opened - back.known
    return Merged(accepted, duplicates + back.known, lost - duplicates, conflicts, back.opened), woken


def _batch_key(cursor: CursorWrapper, batch: str) -> int:
    """Return the second half of the advisory lock key of a batch."""
    cursor.execute("SELECT hashtext(%s)", [batch])
    return int(cursor.fetchone()[0])


def _take_ids(cursor: CursorWrapper, values: dict[str, Any]) -> int:
    """Write the envelopes whose (address, message_id) is free; return how many."""
    try:
        # Asking each row whether it conflicts takes half as long again as writing it, and most batches are new.
        with transaction.atomic():
            cursor.execute(_TAKE_IDS, values)
    except IntegrityError:
        cursor.execute(_TAKE_FREE_IDS, values)
    return int(cursor.rowcount)


def _ensure(cursor: CursorWrapper, names: list[str], with_originals: dict[str, Any] | None) -> None:
    if with_originals is not None:
        cursor.execute(_ORIGINALS, with_originals)
        names = [*names, *(name for (name,) in cursor.fetchall() if name is not None)]
    ensure_addresses(names)


def _count(merged: Merged, origin: BatchOrigin) -> None:
    if not merged.total:
        return
    counts = {
        "accepted": F("accepted") + merged.accepted,
        "duplicates": F("duplicates") + merged.duplicates,
        "rejected": F("rejected") + merged.conflicts,
    }
    if origin.file_id is not None:
        SourceFile.objects.filter(id=origin.file_id).update(**counts)
    if origin.source_id is not None:
        Source.objects.filter(id=origin.source_id).update(**counts, returned=F("returned") + merged.returned)
