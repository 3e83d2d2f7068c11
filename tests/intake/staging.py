"""Dead letters from a broker, staged as the task that drains it stages them, without a broker."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import connection

from poisonadmin.brokers.domain.broker_names import made_id
from poisonadmin.intake.commands.merge import Merged, merge_staged
from poisonadmin.intake.domain import staged_rows
from poisonadmin.intake.domain.draining import batch_prefix
from poisonadmin.intake.domain.envelope import MessageEnvelope, parse_envelope
from poisonadmin.intake.domain.staged_rows import IntakeRow, intake_row
from poisonadmin.messages.domain.dead_letter import CameBack, DeadLetter, Move
from poisonadmin.store.models.intake import Source

TRANSPORT = b'{"broker":"rabbitmq"}'
DIED = DeadLetter(
    reason="rejected",
    exception_class="shop.OrderRejected",
    exception_message="order 17 has no customer",
    delivery_count=3,
)


def make_source(name: str = "rabbit", **columns: Any) -> Source:
    """Create a source of RabbitMQ queues."""
    config = {"url": "amqp://broker.example", "queues": ["orders.dlq"]}
    return Source.objects.create(name=name, kind="rabbitmq", config=config, **columns)


def letter(
    *, payload: str = "body 0", died: DeadLetter = DIED, back: tuple[int, int] | None = None, **fields: Any
) -> IntakeRow:
    """Return a dead letter of `orders.eu`; `back`: the message of ours that it is, and the attempt."""
    envelope: MessageEnvelope = parse_envelope({"address": "orders.eu", "payload": payload, **fields})
    came_back = CameBack(*back) if back else None
    return intake_row(replace(envelope, dead_letter=replace(died, came_back=came_back)), TRANSPORT)


def moved(reason: str = "rejected", **columns: Any) -> DeadLetter:
    """Return what a broker tells of one move from `orders.eu` to `orders.dlq`."""
    return replace(DIED, reason=reason, moves=(Move("orders.eu", reason, to="orders.dlq", **columns),))


def stage(source: Source, rows: Sequence[IntakeRow]) -> str:
    """Stage the rows as one batch of the source's; return its name."""
    batch = f"{batch_prefix(source.id)}{uuid.uuid4()}"
    with connection.cursor() as cursor:
        cursor.execute(staged_rows.TAKE_IDS, [len(rows)])
        ids = [row_id for (row_id,) in cursor.fetchall()]
        with cursor.copy(staged_rows.BODY_COPY) as copy:
            copy.set_types(staged_rows.BODY_TYPES)
            for row_id, row in zip(ids, rows, strict=True):
                copy.write_row(staged_rows.body_row(row_id, row))
        with cursor.copy(staged_rows.STAGED_COPY) as copy:
            copy.set_types(staged_rows.STAGED_TYPES)
            for line, (row_id, row) in enumerate(zip(ids, rows, strict=True), 1):
                copy.write_row(staged_rows.staged_row(row_id, row, made_id(b"digest"), batch=batch, line=line))
    return batch


def drained(source: Source, *rows: IntakeRow) -> Merged:
    """Stage and merge the rows; return what the merge came to."""
    return merge_staged(stage(source, rows), actor=f"source {source.name}", source_id=source.id)
