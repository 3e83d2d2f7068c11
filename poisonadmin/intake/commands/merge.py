"""The merge: staged rows become messages, whole batch by whole batch, and nobody else makes messages out of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.core.commands import locks
from poisonadmin.core.commands.transaction_retry import TransactionRetry, retried
from poisonadmin.core.domain.locks import Lock
from poisonadmin.intake.commands.duplicates import NAMED_CONFLICTS, BatchOrigin, Conflict, put_duplicates_aside
from poisonadmin.intake.commands.imports import import_dead_letters
from poisonadmin.intake.commands.returned import Returned, open_died_again, open_returned
from poisonadmin.messages.commands import schedule
from poisonadmin.messages.commands.admission import refuse_of_batch
from poisonadmin.messages.commands.oversize import SIZES
from poisonadmin.messages.commands.transitions import StatementParts, enter
from poisonadmin.messages.domain.states import Event, Reason, State


@dataclass(frozen=True)
class Merged:
    """What a batch came to. `conflicts` of them had the id of another message; the first thousand are named.

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

_COUNTS = "accepted = accepted + %s, duplicates = duplicates + %s, rejected = rejected + %s"


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
        _count(cursor, merged, origin)
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


def _count(cursor: CursorWrapper, merged: Merged, origin: BatchOrigin) -> None:
    if not merged.total:
        return
    counts = [merged.accepted, merged.duplicates, merged.conflicts]
    if origin.file_id is not None:
        cursor.execute(f"UPDATE source_file SET {_COUNTS} WHERE id = %s", [*counts, origin.file_id])  # noqa: S608
    if origin.source_id is not None:
        cursor.execute(
            f"UPDATE source SET {_COUNTS}, returned = returned + %s WHERE id = %s",  # noqa: S608
            [*counts, merged.returned, origin.source_id],
        )
