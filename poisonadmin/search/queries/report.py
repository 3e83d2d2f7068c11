"""The failure report: the rows of any list of messages, for a file."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.exports import Row
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.rows import QueryTooExpensive, fetch_rows
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.queries.lists import iter_messages

MAX_ROWS = 10_000
SLICE = 500
# Fields of `MessageRow`, and what `_rows` adds to them.
COLUMNS = (
    "id",
    "message_id",
    "address",
    "original_address",
    "state",
    "reason",
    "error_class",
    "error_message",
    "failure_group",
    "attempt_number",
    "failure_count",
    "received_at",
    "failed_at",
    "due_at",
    "state_at",
    "conversation_id",
    "content_type",
    "payload_bytes",
    "owner",
    "tags",
)
_ON_RECORD = ("error_class", "error_message", "intake_address", "original_address", "failure_count")


def report_rows(message_filter: MessageFilter, *, principal: Principal) -> Iterator[list[Row]]:
    """Yield the rows of a list in `COLUMNS`, some hundred at a time, the newest message first.

    At most 10,000 messages; when more match, or take too long to be read, the last row says so.
    """
    principal.require(Permission.EXPORT)
    rows = iter_messages(message_filter, principal, MAX_ROWS + 1)
    written = 0
    try:
        while batch := list(islice(rows, SLICE)):
            kept = batch[: MAX_ROWS - written]
            written += len(kept)
            if kept:
                yield list(_rows(kept, principal))
            if len(kept) < len(batch):
                yield _notice(f"Cut at {MAX_ROWS:,} messages; more match. Narrow the filter to see the rest.")
                return
    except QueryTooExpensive:
        yield _notice(f"Cut at {written:,} messages; more may match, and take too long to read. Narrow the filter.")


def _notice(text: str) -> list[Row]:
    return [(text, *[""] * (len(COLUMNS) - 1))]


def _rows(messages: Sequence[MessageRow], principal: Principal) -> Iterator[Row]:
    on_record = _on_record([message.id for message in messages])
    for message in messages:
        kept = on_record.get(message.id) or dict.fromkeys(_ON_RECORD)
        masks = masks_of(principal).at(
            message.address, message.original_address, kept["original_address"], kept["intake_address"]
        )
        kept["error_message"] = masks.text(kept["error_message"])
        values = (
            vars(message)
            | kept
            | {
                "failure_group": message.group_title,
                "tags": ", ".join(message.tags or ()),
                "original_address": message.original_address or kept["original_address"],
                "failure_count": message.failure_count or kept["failure_count"],
            }
        )
        yield tuple(values[column] for column in COLUMNS)


def _on_record(ids: list[int]) -> dict[int, dict[str, Any]]:
    """Return what the logs keep of each message: its last error, and what an approval takes off its row.

    `original_address`: where its first move took it from. `failure_count`: what had failed until its latest failure,
    since the last success or approval before that one; what was before import, or given back by a broker, as one.
    """
    rows = fetch_rows(
        """SELECT wanted.id, t.error_class, t.error_message,
             (SELECT name FROM address a JOIN envelope e ON e.intake_address_id = a.id WHERE e.id = wanted.id),
             (SELECT from_address FROM hop WHERE message_id = wanted.id AND times IS NULL ORDER BY id LIMIT 1),
             (SELECT count(*) FROM attempt WHERE message_id = wanted.id
              AND outcome IN ('failed', 'imported', 'returned') AND attempt_number <= t.attempt_number
              AND attempt_number > coalesce((SELECT max(h.attempt_number) FROM history h WHERE h.message_id = wanted.id
                AND h.event IN ('delivered', 'approved', 'redirected', 'patched', 'handed_back')
                AND h.attempt_number < t.attempt_number), -1))
           FROM unnest(%s::bigint[]) wanted(id)
           LEFT JOIN LATERAL (SELECT attempt_number, error_class, left(error_message, 2000) AS error_message
                              FROM attempt WHERE message_id = wanted.id AND outcome <> 'delivered'
                              AND error_class IS NOT NULL ORDER BY attempt_number DESC LIMIT 1) t ON true""",
        [ids],
    )
    return {message_id: dict(zip(_ON_RECORD, values, strict=True)) for message_id, *values in rows}
