"""Crashes: the message in delivery, the end of its process, and the node."""

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import fetch, one_of
from poisonadmin.core.queries.sql import Sql
from poisonadmin.messages.domain.outcomes import CRASHES
from poisonadmin.messages.queries.message_rows import require_message

# Spelt out as in the partial index `attempt_crashes`, which a parameter would hide from the planner.
CRASHED = one_of("outcome", CRASHES)
SHOWN_CRASHES = 3
SHOWN_OUTPUT_BYTES = 2048


class SandboxEndWords:
    """The end of a sandbox in words, of a row with `exit_status` and `output`."""

    exit_status: int | None
    output: bytes | None

    @property
    def signal(self) -> str | None:
        """The name of the signal that killed the sandbox."""
        return _signal_name(self.exit_status)

    @property
    def output_text(self) -> str | None:
        """The readable part of the output; never markup to be trusted."""
        return bytes(self.output).decode("utf-8", "replace") if self.output else None


@dataclass(frozen=True)
class CrashRow(SandboxEndWords):
    """An attempt that ended with the crash of its process. `outcome`: crashed, node_lost or suspected.

    `exit_status` is the sandbox's, negative for a signal. `output`: the last bytes that the handler printed.
    `is_alone`: it was delivered by itself; None when that is no longer on record.
    """

    message_id: int
    attempt_number: int
    outcome: str
    finished_at: datetime
    exit_status: int | None
    error_class: str | None
    error_message: str | None
    title: str | None
    output: bytes | None
    destination: str | None
    claim_id: int | None
    shard: int | None
    is_alone: bool | None
    node_id: int | None
    node: str | None
    host: str | None
    node_end: str | None


_COLUMNS = Sql(
    """t.message_id, t.attempt_number, t.outcome, t.finished_at, t.exit_status, t.error_class, t.error_message,
 t.title, substring(t.output FROM greatest(length(t.output) - {shown}, 0) + 1) AS output,
 d.name AS destination, t.claim_id, t.shard, c.is_isolation AS is_alone, n.id AS node_id, n.name AS node, n.host,
 n."end" AS node_end""",
    shown=SHOWN_OUTPUT_BYTES,
)
_JOINS = Sql(
    """LEFT JOIN claim c ON c.id = t.claim_id LEFT JOIN node n ON n.claim_id = t.claim_id AND n.shard = t.shard
 LEFT JOIN destination d ON d.id = t.destination_id"""
)


def crashes_of(message_ids: Sequence[int], *, most: int = SHOWN_CRASHES) -> dict[int, list[CrashRow]]:
    """Return the last crashes of each message, oldest first; the caller has seen to it that they may be shown."""
    rows = fetch(
        CrashRow,
        Sql(
            """SELECT {columns} FROM unnest({ids}::bigint[]) AS wanted (id) CROSS JOIN LATERAL (
              SELECT * FROM attempt WHERE message_id = wanted.id AND {crashed} ORDER BY attempt_number DESC LIMIT {most}
            ) t {joins} ORDER BY t.message_id, t.attempt_number""",
            columns=_COLUMNS,
            ids=list(message_ids),
            crashed=CRASHED,
            most=most,
            joins=_JOINS,
        ),
    )
    found: dict[int, list[CrashRow]] = {message_id: [] for message_id in message_ids}
    for row in rows:
        found[row.message_id].append(row)
    return found


def get_crash(message_id: int, attempt_number: int, *, principal: Principal) -> CrashRow:
    """Return the crash; raise NotFound."""
    require_message(message_id, principal)
    rows = fetch(
        CrashRow,
        Sql(
            """SELECT {columns} FROM attempt t {joins}
            WHERE t.message_id = {message} AND t.attempt_number = {attempt} AND t.{crashed}""",
            columns=_COLUMNS,
            joins=_JOINS,
            message=message_id,
            attempt=min(attempt_number, 2**31 - 1),
            crashed=CRASHED,
        ),
    )
    if not rows:
        raise NotFound(f"Attempt {attempt_number} of message {message_id} was no crash.")
    return rows[0]


def crashes_on(claim_id: int, shard: int, *, outcomes: Iterable[str], most: int) -> list[CrashRow]:
    """Return the first crashes on one node, by message; for a reader who may see every address."""
    return fetch(
        CrashRow,
        Sql(
            """SELECT {columns} FROM (
              SELECT * FROM attempt WHERE claim_id = {claim} AND shard = {shard} AND {crashed}
              AND outcome = ANY({outcomes}) ORDER BY message_id LIMIT {most}) t {joins} ORDER BY t.message_id""",
            columns=_COLUMNS,
            claim=claim_id,
            shard=shard,
            crashed=CRASHED,
            outcomes=list(outcomes),
            most=most,
            joins=_JOINS,
        ),
    )


def _signal_name(exit_status: int | None) -> str | None:
    """Return the name of the signal that an exit status tells of; None for an exit code.

    >>> _signal_name(-11), _signal_name(-64), _signal_name(3), _signal_name(None)
    ('SIGSEGV', 'SIGRTMAX', None, None)
    >>> _signal_name(-45)
    'signal 45'
    """
    if exit_status is None or exit_status >= 0:
        return None
    try:
        return signal.Signals(-exit_status).name
    except ValueError:
        return f"signal {-exit_status}"
