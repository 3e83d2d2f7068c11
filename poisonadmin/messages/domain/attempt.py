"""The columns of an attempt, declared once.

The COPY of a node, the archive, Spark's tables, the failure log and its API take them from here. The model repeats
them; a test compares the two.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, NamedTuple, get_args, get_type_hints

KEY = ("message_id", "attempt_number")


class PgType(NamedTuple):
    """The type of a column in PostgreSQL, by the name that COPY has for it; `max_chars` of a text with a bound."""

    type: str
    max_chars: int | None = None


@dataclass(slots=True, kw_only=True)
class ShownAttempt:
    """The columns of an attempt that its message's failure log shows.

    `response` is the first 4 kB of the answer to a failed delivery, `output` the last 8 kB that a handler printed,
    `exit_status` that of a sandbox that crashed, negative for a signal. `consumer_version`: as the consumer states it,
    where it does. No text holds NUL or a lone surrogate.
    """

    attempt_number: Annotated[int, PgType("int4")]
    outcome: Annotated[str, PgType("text", 20)]
    started_at: Annotated[datetime | None, PgType("timestamptz")]
    finished_at: Annotated[datetime, PgType("timestamptz")]
    error_class: Annotated[str | None, PgType("text", 255)] = None
    cause_class: Annotated[str | None, PgType("text", 255)] = None
    error_message: Annotated[str | None, PgType("text")] = None
    stack: Annotated[str | None, PgType("text")] = None
    fingerprint: Annotated[str | None, PgType("text", 16)] = None
    title: Annotated[str | None, PgType("text", 300)] = None
    status_code: Annotated[int | None, PgType("int2")] = None
    retry_after_ms: Annotated[int | None, PgType("int8")] = None
    response: Annotated[bytes | None, PgType("bytea")] = None
    exit_status: Annotated[int | None, PgType("int2")] = None
    output: Annotated[bytes | None, PgType("bytea")] = None
    move_to: Annotated[str | None, PgType("text", 255)] = None
    consumer_version: Annotated[str | None, PgType("text", 100)] = None


@dataclass(slots=True, kw_only=True)
class AttemptRecord(ShownAttempt):
    """A row of the `attempt` table: the way of one delivery, as its node writes it and `settle` reads it.

    `rule_id`, `rule_action`: the content rule that decided, and its action. `error_code`: that of a conversation which
    its consumer ended with an error.
    """

    message_id: Annotated[int, PgType("int8")]
    claim_id: Annotated[int | None, PgType("int8")]
    shard: Annotated[int | None, PgType("int2")]
    destination_id: Annotated[int | None, PgType("int8")]
    rule_id: Annotated[int | None, PgType("int8")] = None
    rule_action: Annotated[str | None, PgType("text", 20)] = None
    error_code: Annotated[int | None, PgType("int4")] = None


class AttemptColumn(NamedTuple):
    """A column of the `attempt` table."""

    name: str
    type: str
    max_chars: int | None
    is_nullable: bool

    @property
    def filed_as(self) -> str:
        """Its name in the files of the archive, which keep the names that they were begun with."""
        return "ruling" if self.name == "rule_action" else self.name


def _column(name: str, hint: object) -> AttemptColumn:
    values, (kind, most_chars) = get_args(hint)
    return AttemptColumn(name, kind, most_chars, is_nullable=type(None) in get_args(values))


_HINTS = get_type_hints(AttemptRecord, include_extras=True)
ATTEMPT_COLUMNS = tuple(
    _column(name, _HINTS[name]) for name in dict.fromkeys((*KEY, *(field.name for field in fields(AttemptRecord))))
)
SHOWN_COLUMNS = tuple(field.name for field in fields(ShownAttempt))
