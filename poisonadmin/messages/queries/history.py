"""What happened to one message: its attempts, its states, its moves; newest first."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.paging import DEFAULT_LIMIT, Key, Page, window
from poisonadmin.core.queries.rows import fetch
from poisonadmin.delivery.queries.crashes import readable, signal_name
from poisonadmin.messages.queries.detail import require_message

_BY_ATTEMPT = Key(("t.attempt_number",), (int,))
_BY_SEQ = Key(("h.seq",), (int,))
_BY_ID = Key(("h.id",), (int,))


@dataclass(frozen=True)
class AttemptRow:
    """One delivery try. Number 0 is the failure that a dead letter had before import.

    `exit_status` is that of the sandbox that died, negative for a signal, whose name is `signal`; `output_text` is the
    last 8 kB that the handler printed. `host` and `node_end` (clean, lost, fenced) are the node's. `is_alone`: it was
    delivered by itself, as candidates are; None when that is no longer on record.
    """

    attempt_number: int
    outcome: str
    node: str | None
    destination: str | None
    started_at: datetime | None
    finished_at: datetime
    error_class: str | None
    cause_class: str | None
    error_message: str | None
    stack: str | None
    title: str | None
    fingerprint: str | None
    group_id: int | None
    status_code: int | None
    retry_after_ms: int | None
    response: bytes | None
    exit_status: int | None
    output: bytes | None
    move_to: str | None
    node_id: int | None
    host: str | None
    node_end: str | None
    is_alone: bool | None

    @property
    def signal(self) -> str | None:
        """The name of the signal that killed the sandbox."""
        return signal_name(self.exit_status)

    @property
    def output_text(self) -> str | None:
        """What can be read of the output; never markup to be trusted."""
        return readable(self.output)

    @property
    def response_text(self) -> str | None:
        """What can be read of the answer's first bytes; never markup to be trusted."""
        return None if self.response is None else bytes(self.response).decode("utf-8", "replace")


@dataclass(frozen=True)
class HistoryRow:
    """One state change; `note` is the reason that a person gave."""

    seq: int
    at: datetime
    from_state: str | None
    to_state: str
    event: str
    reason: str | None
    attempt_number: int
    actor: str
    note: str | None


@dataclass(frozen=True)
class HopRow:
    """One move from an address to another; of a broker's, where `times` says how often, by the broker's own names."""

    id: int
    at: datetime
    from_address: str
    to_address: str
    queue: str | None
    reason: str
    by: str
    times: int | None


def attempts(
    message_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[AttemptRow]:
    """Return the failure log; raise NotFound, InvalidCursor."""
    _require(message_id, principal)
    page = window(cursor, limit, _BY_ATTEMPT)
    rows = fetch(
        AttemptRow,
        "SELECT t.attempt_number, t.outcome, n.name AS node, d.name AS destination, t.started_at, t.finished_at,"  # noqa: S608
        " t.error_class, t.cause_class, t.error_message, t.stack, t.title, t.fingerprint, g.id AS group_id,"
        " t.status_code, t.retry_after_ms, t.response, t.exit_status, t.output, t.move_to, n.id AS node_id, n.host,"
        ' n."end" AS node_end, c.is_isolation AS is_alone FROM attempt t LEFT JOIN claim c ON c.id = t.claim_id'
        " LEFT JOIN node n ON n.claim_id = t.claim_id AND n.shard = t.shard"
        " LEFT JOIN destination d ON d.id = t.destination_id"
        " LEFT JOIN failure_group g ON g.fingerprint = t.fingerprint"
        f" WHERE t.message_id = %s AND {page.condition} {page.order}",
        [message_id, *page.parameters],
    )
    return page.page(rows, lambda row: (row.attempt_number,))


def history(
    message_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[HistoryRow]:
    """Return the state changes; raise NotFound, InvalidCursor."""
    _require(message_id, principal)
    page = window(cursor, limit, _BY_SEQ)
    rows = fetch(
        HistoryRow,
        "SELECT h.seq, h.at, h.from_state, h.to_state, h.event, h.reason, h.attempt_number, h.actor, h.note"  # noqa: S608
        f" FROM history h WHERE h.message_id = %s AND {page.condition} {page.order}",
        [message_id, *page.parameters],
    )
    return page.page(rows, lambda row: (row.seq,))


def hops(
    message_id: int, *, principal: Principal, cursor: str | None = None, limit: int = DEFAULT_LIMIT
) -> Page[HopRow]:
    """Return the moves between addresses; raise NotFound, InvalidCursor."""
    _require(message_id, principal)
    page = window(cursor, limit, _BY_ID)
    rows = fetch(
        HopRow,
        "SELECT h.id, h.at, h.from_address, h.to_address, h.queue, h.reason, h.by, h.times"  # noqa: S608
        f" FROM hop h WHERE h.message_id = %s AND {page.condition} {page.order}",
        [message_id, *page.parameters],
    )
    return page.page(rows, lambda row: (row.id,))


def _require(message_id: int, principal: Principal) -> None:
    principal.require(Permission.READ)
    require_message(message_id, principal=principal)
