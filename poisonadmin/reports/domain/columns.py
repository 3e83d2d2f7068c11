"""The columns of reports, each declared once: its name, its type, and an expression over the rows that a kind reads.

An expression is SQL that PostgreSQL and Spark both understand, over `m` (the message), `t` (a try, or the message's
last failure), `h` (a decision) and `b` (the message's bytes); what they say differently is a method of `Dialect`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.exports import ColumnType

HEADER, KEY = "header.", "key."
MAX_NAME_CHARS = 200
# Of a payload: enough to recognise it, and little enough for a million rows.
PAYLOAD_BYTES = 4000
# Where a message is, was moved from and came in.
_ADDRESSES = ("address", "original_address", "intake_address")


class InvalidReport(InvalidField):
    """Raised when a field of a report is invalid; `field` names what is wrong."""

    code = "invalid_report"


class Dialect(Protocol):
    """The expressions that differ between PostgreSQL and Spark."""

    def day(self, at: str) -> str: ...
    def hour(self, at: str) -> str: ...
    def seconds(self, since: str, until: str) -> str: ...
    def header(self, name: str) -> str: ...
    def key(self, name: str) -> str: ...
    def payload(self, most: int) -> str: ...
    def mark(self, value: str, salt: str, *, is_bytes: bool) -> str: ...
    def is_any(self, value: str, names: Sequence[str]) -> str: ...
    def was_at(self, message_id: str, names: Sequence[str]) -> str: ...


Expression = Callable[[Dialect], str]


@dataclass(frozen=True)
class ReportColumn:
    """A column. `needs`: what the rows are joined with for it: `last` (the last failure) or `body` (the bytes)."""

    name: str
    type: ColumnType
    expression: Expression
    needs: frozenset[str] = field(default_factory=frozenset)
    is_payload: bool = False


@dataclass(frozen=True)
class HiddenColumns:
    """The addresses, by column, at which its values are masked for who asked, and `groups` whose titles are.

    `salt` keys the hashes of this kind of masks only: it stands in statements.
    """

    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    groups: Sequence[int] = ()
    salt: str = ""

    def mask(self, column: ReportColumn, *, of: str) -> ReportColumn:
        """Return the column with its values masked at these addresses. `of`: the rows that have the addresses."""
        if not (names := self.addresses.get(column.name)):
            return column

        def expression(dialect: Dialect) -> str:
            value = column.expression(dialect)
            hidden = [dialect.is_any(f"{of}.{one}", names) for one in _ADDRESSES]
            if of == "m":
                hidden.append(dialect.was_at("m.id", names))
            if column.name in ("failure_group", "why") and self.groups:
                hidden.append(f"{of}.group_id IN ({', '.join(map(str, self.groups))})")
            mark = dialect.mark(value, self.salt, is_bytes=column.is_payload)
            return f"CASE WHEN coalesce({' OR '.join(hidden)}, FALSE) THEN {mark} ELSE {value} END"

        return replace(column, expression=expression)


def _is(sql: str) -> Expression:
    return lambda _: sql


def _text(name: str, sql: str, *needs: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.TEXT, _is(sql), frozenset(needs))


def _whole(name: str, sql: str, *needs: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.WHOLE, _is(sql), frozenset(needs))


def _time(name: str, sql: str, *needs: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.TIME, _is(sql), frozenset(needs))


def _day(name: str, sql: str, *needs: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.TEXT, lambda dialect: dialect.day(sql), frozenset(needs))


def _hour(name: str, sql: str, *needs: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.TEXT, lambda dialect: dialect.hour(sql), frozenset(needs))


def _seconds(name: str, since: str, until: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.DECIMAL, lambda dialect: dialect.seconds(since, until))


# What every kind that is about messages can show.
MESSAGE_COLUMNS = (
    _whole("id", "m.id"),
    _text("message_id", "m.message_id"),
    _text("address", "m.address"),
    _text("original_address", "m.original_address"),
    _text("state", "m.state"),
    _text("reason", "m.reason"),
    _text("failure_group", "m.failure"),
    _whole("group_id", "m.group_id"),
    _text("fingerprint", "m.fingerprint"),
    _whole("failure_count", "m.failure_count"),
    _whole("crash_count", "m.crash_count"),
    _time("received_at", "m.received_at"),
    _day("received_day", "m.received_at"),
    _hour("received_hour", "m.received_at"),
    _text("received_by", "m.received_by"),
    _time("failed_at", "m.failed_at"),
    _day("failed_day", "m.failed_at"),
    _hour("failed_hour", "m.failed_at"),
    _time("state_at", "m.state_at"),
    _time("expires_at", "m.expires_at"),
    _text("conversation_id", "m.conversation_id"),
    _text("bookmark", "m.bookmark"),
    _text("content_type", "m.content_type"),
    _whole("payload_bytes", "m.payload_bytes"),
    _text("owner", "m.owner"),
    _text("tags", "m.tags"),
    ReportColumn(
        "payload",
        ColumnType.BYTES,
        lambda dialect: dialect.payload(PAYLOAD_BYTES),
        frozenset({"body"}),
        is_payload=True,
    ),
)
FAILURE_COLUMNS = (
    *MESSAGE_COLUMNS,
    _whole("attempt_number", "m.attempt_number"),
    _whole("operation_id", "m.operation_id"),
    _text("error_class", "t.error_class", "last"),
    _text("cause_class", "t.cause_class", "last"),
    _text("error_message", "t.error_message", "last"),
    _whole("status_code", "t.status_code", "last"),
    _text("destination", "t.destination", "last"),
    _text("consumer_version", "t.consumer_version", "last"),
)
ATTEMPT_COLUMNS = (
    *MESSAGE_COLUMNS,
    _whole("attempt_number", "t.attempt_number"),
    _time("started_at", "t.started_at"),
    _time("finished_at", "t.finished_at"),
    _day("finished_day", "t.finished_at"),
    _hour("finished_hour", "t.finished_at"),
    _seconds("seconds", "t.started_at", "t.finished_at"),
    _text("outcome", "t.outcome"),
    _text("error_class", "t.error_class"),
    _text("cause_class", "t.cause_class"),
    _text("error_message", "t.error_message"),
    _text("failure", "t.title"),
    _whole("status_code", "t.status_code"),
    _text("destination", "t.destination"),
    _text("node", "t.node"),
    _text("rule", "t.rule"),
    _text("ruling", "t.ruling"),
    _text("consumer_version", "t.consumer_version"),
)
_RESULT = """CASE WHEN h.to_state = 'FAIL' THEN 'given_up' WHEN h.to_state = 'NDLV' THEN 'undecided'
 WHEN h.next_state = 'DLVD' THEN 'delivered' WHEN h.next_state = 'NDLV' THEN 'not_delivered'
 WHEN h.next_state = 'FAIL' THEN 'given_up' WHEN h.next_state = 'TBDL' THEN 'decided_again' ELSE 'open' END"""
DECISION_COLUMNS = (
    *MESSAGE_COLUMNS,
    _time("decided_at", "h.at"),
    _day("decided_day", "h.at"),
    _text("decision", "h.event"),
    _text("decided_by", "h.actor"),
    _text("decision_reason", "h.note"),
    _whole("operation_id", "h.operation_id"),
    _text("from_state", "h.from_state"),
    _text("to_state", "h.to_state"),
    _text("result", _RESULT),
    _time("result_at", "CASE WHEN h.to_state = 'TBDL' THEN h.next_at END"),
    _time("undecided_since", "CASE WHEN h.from_state = 'NDLV' THEN h.before_at END"),
    ReportColumn(
        "seconds_to_decision",
        ColumnType.DECIMAL,
        lambda dialect: f"CASE WHEN h.from_state = 'NDLV' THEN {dialect.seconds('h.before_at', 'h.at')} END",
    ),
)
# Of the union of blacklisted messages and entries of the poison list.
POISON_COLUMNS = (
    _text("what", "p.what"),
    _whole("id", "p.id"),
    _text("address", "p.address"),
    _text("message_id", "p.message_id"),
    _text("bookmark", "p.bookmark"),
    _text("why", "p.why"),
    _whole("crashes", "p.crashes"),
    _whole("failures", "p.failures"),
    _time("since", "p.since"),
    _text("reported_by", "p.reported_by"),
)


def named(name: str) -> ReportColumn | None:
    """Return the column of a header or a business key, `header.<name>` or `key.<name>`; None for another name.

    Errors: `InvalidReport` for a name that nothing can have.
    """
    for prefix in (HEADER, KEY):
        if name.startswith(prefix):
            member = name.removeprefix(prefix)
            if not 0 < len(member) <= MAX_NAME_CHARS or not member.isprintable():
                raise InvalidReport("columns", f"{name[:60]!r} names no header or business key.")
            return _of_key(name, member) if prefix == KEY else _of_header(name, member)
    return None


def _of_key(name: str, member: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.TEXT, lambda dialect: dialect.key(member))


def _of_header(name: str, member: str) -> ReportColumn:
    return ReportColumn(name, ColumnType.TEXT, lambda dialect: dialect.header(member), frozenset({"body"}))
