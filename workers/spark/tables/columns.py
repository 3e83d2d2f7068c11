"""The tables that Spark reads: their columns, as the database has them and as the archive keeps them.

A row of `messages` is a message; `attempts`, `history` and `operations` are what was tried, changed and decided, and
`results` what became of the members of operations. Times are in UTC. `headers`, `keys` (business keys) and `tags` are
JSON.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from psycopg import sql

from poisonadmin.messages.domain.attempt import ATTEMPT_COLUMNS
from workers.spark.schemas import POSTGRES_TYPES, SPARK_TYPES

_LONG, _INT, _TEXT, _BYTES = pa.int64(), pa.int32(), pa.string(), pa.binary()
_TIME, _BOOL, _DOUBLE = pa.timestamp("us", tz="UTC"), pa.bool_(), pa.float64()
# By PostgreSQL's names.
_ARROW = {name: arrow for arrow, name in POSTGRES_TYPES.items()} | {"int2": _INT}
_SELECT = sql.SQL("SELECT {columns} FROM {source} WHERE {id} > %(after)s AND {id} <= %(until)s{conditions}")


@dataclass(frozen=True)
class Column:
    """A column. `sql`: over the table's own row and what `join` adds."""

    name: str
    type: pa.DataType
    sql: str
    join: str = ""

    @property
    def as_sql(self) -> str:
        """The column as the database gives it, in the type that Arrow expects."""
        return f'({self.sql})::{POSTGRES_TYPES[self.type]} AS "{self.name}"'

    @property
    def as_spark(self) -> str:
        """The column as Spark declares it."""
        return f"`{self.name}` {SPARK_TYPES[self.type]}"


@dataclass(frozen=True)
class Table:
    """A table. `own`: its own rows in the database; `id`: the id of the message, or the row, that ranges are of;
    `order`: what else tells its rows apart, where a message has several."""

    name: str
    own: str
    id: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    def chosen(self, names: Iterable[str] | None = None) -> list[Column]:
        """Return the columns of these names, in that order; all of them by default. Errors: `KeyError`."""
        return list(self.columns) if names is None else [self.by_name[name] for name in names]

    def select(self, columns: Sequence[Column], conditions: Sequence[tuple[Column, str]] = ()) -> str:
        """Return the query for these columns of the rows with ids above %(after)s, up to %(until)s.

        `conditions`: SQL on columns, `{}` for the column's expression; text, not to come from outside.
        """
        needed = dict.fromkeys(column.join for column in (*columns, *(column for column, _ in conditions)))
        where = "".join(f" AND ({text.format(f'({column.sql})')})" for column, text in conditions)
        return _SELECT.format(
            columns=sql.SQL(", ".join(column.as_sql for column in columns)),
            source=sql.SQL(" ".join([self.own, *filter(None, needed)])),
            id=sql.SQL(self.id),
            conditions=sql.SQL(where),
        ).as_string()


def columns_in(conditions: str) -> list[str]:
    """Return the columns of messages that a text in Spark's SQL over `m` may name."""
    return [column.name for column in MESSAGES.columns if re.search(rf"\bm\.{column.name}\b", conditions)]


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the columns as Arrow carries them."""
    return pa.schema([(column.name, column.type) for column in columns])


def spark_schema(columns: Iterable[Column]) -> str:
    """Return the columns as Spark declares them."""
    return ", ".join(column.as_spark for column in columns)


# The range is said of each large table: the planner then reads them side by side, and looks none up row by row.
_ENVELOPE = "JOIN envelope AS e ON e.id = m.id AND e.id > %(after)s AND e.id <= %(until)s"
_BODY = "LEFT JOIN body AS b ON b.id = m.id AND b.id > %(after)s AND b.id <= %(until)s"
_ADDRESS = "JOIN address AS a ON a.id = m.address_id"
_ORIGINAL = "LEFT JOIN address AS o ON o.id = m.original_address_id"
_GROUP = "LEFT JOIN failure_group AS g ON g.id = m.group_id"
_OWNER = "LEFT JOIN message_owner AS w ON w.message_id = m.id LEFT JOIN auth_user AS u ON u.id = w.owner_id"

MESSAGES = Table(
    "messages",
    "message AS m",
    "m.id",
    (
        Column("id", _LONG, "m.id"),
        Column("message_id", _TEXT, "e.message_id", _ENVELOPE),
        Column("address", _TEXT, "a.name", _ADDRESS),
        Column("original_address", _TEXT, "o.name", _ORIGINAL),
        Column("state", _TEXT, "m.state"),
        Column("reason", _TEXT, "m.reason"),
        Column("state_at", _TIME, "m.state_at"),
        Column("received_at", _TIME, "e.received_at", _ENVELOPE),
        Column("received_by", _TEXT, "e.received_by", _ENVELOPE),
        Column("failed_at", _TIME, "m.failed_at"),
        Column("conversation_id", _TEXT, "e.conversation_id", _ENVELOPE),
        Column("bookmark", _TEXT, "e.bookmark", _ENVELOPE),
        Column("content_type", _TEXT, "e.content_type", _ENVELOPE),
        Column("payload_bytes", _INT, "e.payload_bytes", _ENVELOPE),
        Column("expires_at", _TIME, "e.expires_at", _ENVELOPE),
        Column("parent_id", _LONG, "e.parent_id", _ENVELOPE),
        Column("attempt_number", _INT, "m.attempt_number"),
        Column("failure_count", _INT, "m.failure_count"),
        Column("crash_count", _INT, "m.crash_count"),
        Column("group_id", _LONG, "coalesce(g.merged_into_id, m.group_id)", _GROUP),
        Column("fingerprint", _TEXT, "g.fingerprint", _GROUP),
        Column("failure", _TEXT, "g.title", _GROUP),
        Column("operation_id", _LONG, "m.operation_id"),
        Column("owner", _TEXT, "u.username", _OWNER),
        Column(
            "tags",
            _TEXT,
            "(SELECT array_to_json(tags) FROM message_tag WHERE message_id = m.id)",
        ),
        Column(
            "keys",
            _TEXT,
            "(SELECT json_object_agg(name, value ORDER BY name) FROM business_key WHERE message_id = m.id)",
        ),
        Column("headers", _TEXT, "convert_from(b.headers, 'UTF8')", _BODY),
        Column("payload", _BYTES, "b.payload", _BODY),
        Column("transport", _BYTES, "b.transport", _BODY),
        Column("candidate", _BOOL, "m.candidate"),
        Column("intake_address", _TEXT, "(SELECT name FROM address WHERE id = e.intake_address_id)", _ENVELOPE),
    ),
)

_MESSAGE_OF_ATTEMPT = "JOIN message AS m ON m.id = t.message_id JOIN address AS a ON a.id = m.address_id"
ATTEMPTS = Table(
    "attempts",
    "attempt AS t",
    "t.message_id",
    (
        *(Column(one.filed_as, _ARROW[one.type], f"t.{one.name}") for one in ATTEMPT_COLUMNS),
        Column("address", _TEXT, "a.name", _MESSAGE_OF_ATTEMPT),
        Column("destination", _TEXT, "(SELECT name FROM destination WHERE id = t.destination_id)"),
        Column("node", _TEXT, "(SELECT name FROM node WHERE claim_id = t.claim_id AND shard = t.shard LIMIT 1)"),
        Column("rule", _TEXT, "(SELECT name FROM rule WHERE id = t.rule_id)"),
    ),
    order=("t.attempt_number",),
)

HISTORY = Table(
    "history",
    "history AS h",
    "h.message_id",
    (
        Column("message_id", _LONG, "h.message_id"),
        Column("seq", _LONG, "h.seq"),
        Column("from_state", _TEXT, "h.from_state"),
        Column("to_state", _TEXT, "h.to_state"),
        Column("event", _TEXT, "h.event"),
        Column("reason", _TEXT, "h.reason"),
        Column("attempt_number", _INT, "h.attempt_number"),
        Column("actor", _TEXT, "h.actor"),
        Column("note", _TEXT, "h.note"),
        Column("operation_id", _LONG, "h.operation_id"),
        Column("at", _TIME, "h.at"),
    ),
    order=("h.seq",),
)

OPERATIONS = Table(
    "operations",
    "operation AS p",
    "p.id",
    (
        Column("id", _LONG, "p.id"),
        Column("action", _TEXT, "p.action"),
        Column("state", _TEXT, "p.state"),
        Column("reason", _TEXT, "p.reason"),
        Column("params", _TEXT, "p.params"),
        Column("rate_per_second", _DOUBLE, "p.rate_per_second"),
        Column("count", _INT, "p.count"),
        Column("changed", _INT, "p.changed"),
        Column("halted_why", _TEXT, "p.halted_why"),
        Column("requested_by", _TEXT, "p.requested_by"),
        Column("requested_at", _TIME, "p.requested_at"),
        Column("ended_at", _TIME, "p.ended_at"),
        Column("sign_off_by", _TEXT, "p.sign_off_by"),
        Column("sign_off_reason", _TEXT, "p.sign_off_reason"),
        Column("broke_glass", _BOOL, "p.broke_glass_at IS NOT NULL"),
        Column("restart_job_id", _LONG, "p.restart_job_id"),
    ),
)

RESULTS = Table(
    "results",
    "operation_result AS r",
    "r.message_id",
    (
        Column("message_id", _LONG, "r.message_id"),
        Column("operation_id", _LONG, "r.operation_id"),
        Column("outcome", _TEXT, "r.outcome"),
        Column("code", _TEXT, "r.code"),
        Column("detail", _TEXT, "r.detail"),
        Column("group_id", _LONG, "r.group_id"),
        Column("failed_group_id", _LONG, "r.failed_group_id"),
        Column("at", _TIME, "r.at"),
    ),
    order=("r.operation_id",),
)

TABLES = {table.name: table for table in (MESSAGES, ATTEMPTS, HISTORY, OPERATIONS, RESULTS)}

# What a restored message needs besides, and few messages have: rows of three tables, as JSON.
EXTRAS = Table(
    "extras",
    """(SELECT message_id, 'hop' AS kind, to_jsonb(hop) AS row FROM hop
     UNION ALL SELECT message_id, 'payload_version', to_jsonb(payload_version) FROM payload_version
     UNION ALL SELECT message_id, 'confirmation', to_jsonb(confirmation) FROM confirmation) AS x""",
    "x.message_id",
    (
        Column("message_id", _LONG, "x.message_id"),
        Column("kind", _TEXT, "x.kind"),
        Column("row", _TEXT, "x.row"),
    ),
    order=("x.kind", "x.row"),
)
# Operations stay in the database, a row each; of their members' results the files have those of archived messages.
ARCHIVED = (MESSAGES, ATTEMPTS, HISTORY, EXTRAS, RESULTS)
