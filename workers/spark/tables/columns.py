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

_TYPES = (
    (pa.int64(), "long", "int8"),
    (pa.int32(), "int", "int4"),
    (pa.string(), "string", "text"),
    (pa.binary(), "binary", "bytea"),
    (pa.timestamp("us", tz="UTC"), "timestamp", "timestamptz"),
    (pa.bool_(), "boolean", "bool"),
    (pa.float64(), "double", "float8"),
)
SPARK_TYPES = {arrow: spark for arrow, spark, _ in _TYPES}
POSTGRES_TYPES = {arrow: postgres for arrow, _, postgres in _TYPES}
_ARROW_TYPES = {spark: arrow for arrow, spark, _ in _TYPES}


class RowSchema:
    """The columns of rows, as Spark declares them (`spark`) and as Arrow carries them (`arrow`)."""

    def __init__(self, spark: str) -> None:
        self.spark = spark
        columns = (column.split(" ") for column in spark.split(", "))
        self.arrow = pa.schema([(name, _arrow_type(kind)) for name, kind in columns])


def _arrow_type(spark: str) -> pa.DataType:
    inner = spark.removeprefix("array<").removesuffix(">")
    return _ARROW_TYPES[spark] if inner == spark else pa.list_(_ARROW_TYPES[inner])


_LONG, _INT, _TEXT, _BYTES = pa.int64(), pa.int32(), pa.string(), pa.binary()
_TIME, _BOOL = pa.timestamp("us", tz="UTC"), pa.bool_()
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


def _own(alias: str, columns: str) -> tuple[Column, ...]:
    """Return columns of the table's own rows, which have this alias, as Spark would declare them."""
    return tuple(Column(one.name, one.type, f"{alias}.{one.name}") for one in RowSchema(columns).arrow)


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
_ANNOTATION = "LEFT JOIN annotation AS w ON w.message_id = m.id LEFT JOIN auth_user AS u ON u.id = w.owner_id"

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
        Column("owner", _TEXT, "u.username", _ANNOTATION),
        Column("tags", _TEXT, "array_to_json(nullif(w.tags, '{}'))", _ANNOTATION),
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
        Column("note", _TEXT, "w.note", _ANNOTATION),
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
    _own(
        "h",
        "message_id long, seq long, from_state string, to_state string, event string, reason string,"
        " attempt_number int, actor string, note string, operation_id long, at timestamp",
    ),
    order=("h.seq",),
)

OPERATIONS = Table(
    "operations",
    "operation AS p",
    "p.id",
    (
        *_own(
            "p",
            "id long, action string, state string, reason string, params string, rate_per_second double, count int,"
            " changed int, halted_why string, requested_by string, requested_at timestamp, ended_at timestamp,"
            " sign_off_by string, sign_off_reason string",
        ),
        Column("broke_glass", _BOOL, "p.broke_glass_at IS NOT NULL"),
        *_own("p", "restart_job_id long"),
    ),
)

RESULTS = Table(
    "results",
    "operation_result AS r",
    "r.message_id",
    _own(
        "r",
        "message_id long, operation_id long, outcome string, code string, detail string, group_id long,"
        " failed_group_id long, at timestamp",
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
    _own("x", "message_id long, kind string, row string"),
    order=("x.kind", "x.row"),
)
# Operations stay in the database, a row each; of their members' results the files have those of archived messages.
ARCHIVED = (MESSAGES, ATTEMPTS, HISTORY, EXTRAS, RESULTS)
