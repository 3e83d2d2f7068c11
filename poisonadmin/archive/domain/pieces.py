"""Pieces of the archive: their states, which messages and rows are in one, and the orders and results between the
commands, which run the archive, and the workers, which write its files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

# `cutoffs` is JSON: [{address_id, delivered, failed, …}, …] (archive/queries.py). `after`, `until`: of the piece.
CHOSEN = """
FROM message AS m JOIN address AS a ON a.id = m.address_id
     JOIN jsonb_to_recordset(%(cutoffs)s::jsonb) AS kept (address_id bigint, delivered timestamptz, failed timestamptz)
     ON kept.address_id = m.address_id
WHERE m.id > %(after)s AND m.id <= %(until)s
  AND (m.state = 'DLVD' AND m.state_at <= kept.delivered OR m.state = 'FAIL' AND m.state_at <= kept.failed)
  AND NOT EXISTS (SELECT FROM held_message WHERE held_message.message_id = m.id)
"""

# The tables that lose rows when a message is archived, and their column with the message's id.
TABLES = {
    "message": "id",
    "envelope": "id",
    "body": "id",
    "attempt": "message_id",
    "hop": "message_id",
    "confirmation": "message_id",
    "annotation": "message_id",
    "history": "message_id",
    "payload_version": "message_id",
    "operation_result": "message_id",
}
# Of these, those that nobody deletes from but `forget_kept_rows`.
APPEND_ONLY = ("history", "payload_version")

# Of each table, how many rows the database has of a piece, and the sum of their versions.
Versions = Mapping[str, Sequence[int]]


class PieceState(StrEnum):
    """PLANNED: its messages are live, whatever files there are. WRITTEN: they are live, and verified files hold them.
    ARCHIVED: they are in its files alone. EMPTY: it has none."""

    PLANNED = "planned"
    WRITTEN = "written"
    ARCHIVED = "archived"
    EMPTY = "empty"


@dataclass(frozen=True)
class PieceOrder:
    """A piece to be written: messages with ids above `after`, up to `until`. `name`: of its files, not used before."""

    id: int
    after: int
    until: int
    name: str


@dataclass(frozen=True)
class WriteOrder:
    """The place of the files, their run, and its cutoffs (JSON, as `CHOSEN` reads them)."""

    place: str
    run_id: int
    cutoffs: str


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written and read back. `sha256`: of its bytes, `rows_sha256`: of its rows as the database gave
    them."""

    table: str
    day: date
    root: str
    path: str
    rows: int
    bytes: int
    sha256: str
    rows_sha256: str
    first_id: int
    last_id: int


@dataclass(frozen=True)
class Rewrite:
    """The changes of a file that is written anew: it loses the rows of messages, or rows lose their payloads."""

    without: Collection[int] = ()
    emptied: Collection[int] = ()

    @property
    def ids(self) -> Collection[int]:
        """The messages that it is about."""
        return [*self.without, *self.emptied]


@dataclass
class WrittenPiece:
    """The files of a piece, and what the database had of it when they were written: one snapshot of all."""

    versions: Versions
    files: list[WrittenFile] = field(default_factory=list)


def versions_of(chosen: str) -> str:
    """Return the query for what the database has of the messages whose ids are in the table `chosen`.

    Shape: name, n, versions (the sum of xmin: whatever changes a row gives it a higher one), a row a table.
    """
    return " UNION ALL ".join(
        f"SELECT '{table}' AS name, count(*) AS n, coalesce(sum(one.xmin::text::bigint), 0)::bigint AS versions"  # noqa: S608
        f" FROM {table} AS one JOIN {chosen} AS chosen ON chosen.id = one.{key}"
        f" WHERE one.{key} > %(after)s AND one.{key} <= %(until)s"
        for table, key in TABLES.items()
    )
