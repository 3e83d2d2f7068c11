"""The rows of a report that are in the database, as SQL: what a request reads at once, and a task range by range."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import connection

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.exports import ColumnType
from poisonadmin.core.queries.masking import masks_of, was_at
from poisonadmin.core.queries.rows import fetch_values, one_of
from poisonadmin.core.queries.scope import destinations_seen
from poisonadmin.core.queries.sql import EMPTY, TRUE, Sql, all_of, join, raw
from poisonadmin.decisions.operations.domain.actions import DECISION_EVENTS
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.merged_groups import SEEN_AS
from poisonadmin.poison_list.queries.entries import source_scope
from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.reports.domain.columns import HiddenColumns
from poisonadmin.reports.domain.kinds import Grain, PeriodBy, ReportKind
from poisonadmin.search.domain.filters import MessageFilter, Term, parse_filter, require_values
from poisonadmin.search.queries.live import Where, compile_filter

SQL_TYPES = {
    ColumnType.TEXT: "text",
    ColumnType.WHOLE: "bigint",
    ColumnType.DECIMAL: "float8",
    ColumnType.TIME: "timestamptz",
    ColumnType.BYTES: "bytea",
}
# Where a row stands among those of its message; and how often rows of a group have a value.
ID, PLACE, COUNT = "_id", "_place", "_count"

_INTAKE = Sql("(SELECT name FROM address WHERE id = e.intake_address_id)")
# The planner looks through this: what is not asked for is not read.
_MESSAGES = partial(
    Sql,
    """SELECT m.id, e.message_id, a.name AS address, o.name AS original_address, {intake} AS intake_address, m.state,
       m.reason, m.state_at,
       e.received_at, e.received_by, m.failed_at, e.expires_at, e.conversation_id, e.bookmark, e.content_type,
       e.payload_bytes, m.attempt_number, m.failure_count, m.crash_count, {group} AS group_id, g.fingerprint,
       g.title AS failure, m.operation_id,
       (SELECT username FROM annotation JOIN auth_user ON auth_user.id = owner_id WHERE message_id = m.id) AS owner,
       (SELECT array_to_string(nullif(tags, '{{}}'), ', ') FROM annotation WHERE message_id = m.id) AS tags
    FROM {messages} AS m JOIN envelope AS e ON e.id = m.id AND {envelopes} JOIN address AS a ON a.id = m.address_id
         LEFT JOIN address AS o ON o.id = m.original_address_id LEFT JOIN failure_group AS g ON g.id = m.group_id
    WHERE {where}""",
    group=SEEN_AS,
    intake=_INTAKE,
)
_TRY = partial(
    Sql,
    """SELECT t.message_id, t.attempt_number, t.started_at, t.finished_at, t.outcome, t.error_class, t.cause_class,
       left(t.error_message, 2000) AS error_message, t.title, t.status_code, d.name AS destination,
       t.rule_action AS ruling,
       (SELECT name FROM node WHERE claim_id = t.claim_id AND shard = t.shard LIMIT 1) AS node,
       (SELECT name FROM rule WHERE id = t.rule_id) AS rule, t.consumer_version
    FROM attempt AS t LEFT JOIN destination AS d ON d.id = t.destination_id AND {seen} WHERE {which}""",
)
_LAST = partial(
    Sql,
    """LEFT JOIN LATERAL ({tries} AND t.outcome <> 'delivered' AND t.error_class IS NOT NULL
                   ORDER BY t.attempt_number DESC LIMIT 1) AS t ON TRUE""",
)
_DECIDED = one_of("event", DECISION_EVENTS)
# Beside the decisions themselves what they led to, and when a message began to wait for one.
_HISTORY = partial(
    Sql,
    """SELECT h.*, lead(h.to_state) OVER life AS next_state, lead(h.at) OVER life AS next_at,
       lag(h.at) OVER life AS before_at
    FROM history AS h
    WHERE {of} AND h.event <> 'assigned' AND (h.{decided} OR h.to_state IN ('DLVD', 'NDLV', 'FAIL'))
    WINDOW life AS (PARTITION BY h.message_id ORDER BY h.seq)""",
    decided=_DECIDED,
)
_POISON = partial(
    Sql,
    """SELECT 'blacklisted' AS what, m.id, a.name AS address, e.message_id, e.bookmark, g.title AS why,
       m.crash_count::bigint AS crashes, m.failure_count::bigint AS failures, m.state_at AS since, e.received_at,
       NULL AS reported_by, o.name AS original_address, {intake} AS intake_address, {group} AS group_id
    FROM message AS m JOIN envelope AS e ON e.id = m.id JOIN address AS a ON a.id = m.address_id
         LEFT JOIN address AS o ON o.id = m.original_address_id LEFT JOIN failure_group AS g ON g.id = m.group_id
    WHERE m.blacklisted_at IS NOT NULL AND {where}
    UNION ALL
    SELECT 'listed', p.message_id, p.source, NULL, p.bookmark, p.why, p.crashes, p.failures, p.listed_at, p.listed_at,
       p.reported_by, NULL, NULL, NULL
    FROM poison_entry AS p WHERE p.is_listed AND {entries}""",
    group=SEEN_AS,
    intake=_INTAKE,
)


_BUSINESS_KEY = "SELECT k.value FROM business_key k WHERE k.message_id = m.id AND k.name"


class PostgresDialect:
    """The expressions of columns as PostgreSQL says them. `%` is doubled: values stand beside the SQL."""

    def __init__(self, time_zone: str) -> None:
        self._zone = _literal(time_zone)

    def day(self, at: str) -> str:
        """Return the day, in the report's time zone."""
        return f"to_char({at} AT TIME ZONE {self._zone}, 'YYYY-MM-DD')"

    def hour(self, at: str) -> str:
        """Return the day and the hour, in the report's time zone."""
        return f"to_char({at} AT TIME ZONE {self._zone}, 'YYYY-MM-DD HH24:00')"

    def seconds(self, since: str, until: str) -> str:
        """Return how many seconds lie between two times."""
        return f"extract(epoch FROM ({until}) - ({since}))::float8"

    def header(self, name: str) -> str:
        """Return a header; NULL where one of the headers holds what no text of the database can."""
        return (
            "CASE WHEN position('\\\\u0000'::bytea IN b.headers) = 0"
            f" THEN convert_from(b.headers, 'UTF8')::json ->> {_literal(name)} END"
        )

    def key(self, name: str) -> str:
        """Return a business key."""
        return f"({_BUSINESS_KEY} = {_literal(name)})"

    def payload(self, most: int) -> str:
        """Return the beginning of the payload."""
        return f"substring(b.payload FROM 1 FOR {int(most)})"

    def mark(self, value: str, salt: str, *, is_bytes: bool) -> str:
        """Return what is read in place of a masked value."""
        hashed = f"encode(sha256(convert_to('{salt}' || md5({value}), 'UTF8')), 'hex')"
        marked = f"'[masked:' || left({hashed}, 8) || ']'"
        return f"convert_to({marked}, 'UTF8')" if is_bytes else marked

    def is_any(self, value: str, names: Sequence[str]) -> str:
        """Return the condition that a value is one of the names."""
        return f"{value} IN ({', '.join(map(_literal, names))})"

    def was_at(self, message_id: str, names: Sequence[str]) -> str:
        """Return the condition that a message was at one of the names before, or is the child of one that was."""
        return was_at(message_id, ", ".join(map(_literal, names)))


def _literal(text: str) -> str:
    escaped = text.replace("'", "''").replace("%", "%%")
    return f"'{escaped}'" if "\\" not in text else "E'" + escaped.replace("\\", "\\\\") + "'"


def report_filter(asked: AskedReport) -> MessageFilter:
    """Return the filter of a report, with what its kind and its period say of messages. Errors: `InvalidFilter`."""
    require_values(asked.filter)
    found = parse_filter(asked.filter)
    terms = list(found.terms)
    if asked.kind is ReportKind.AGEING:
        terms.append(Term("state", (State.NDLV,)))
    for operator, value in _message_times(asked):
        terms.append(Term(_time_field(asked), (value,), operator))
    return replace(found, terms=tuple(terms))


def _message_times(asked: AskedReport) -> list[tuple[str, Any]]:
    """Return what the period says of a time of the message itself, which indexes of messages know."""
    if asked.of_kind.grain is Grain.POISON:
        return []
    if asked.of_kind.grain is not Grain.MESSAGE and asked.period.by is PeriodBy.FAILED:
        return []
    return [(sql.strip(), value) for sql, value in asked.period.conditions("")]


def _time_field(asked: AskedReport) -> str:
    return "received_at" if asked.period.by is PeriodBy.RECEIVED else "failed_at"


def live_where(asked: AskedReport, principal: Principal) -> Where:
    """Return what the filter says of live messages, in the principal's scope: the same as in the list of messages."""
    where = compile_filter(report_filter(asked), principal)
    if asked.of_kind.grain is not Grain.MESSAGE or asked.of_kind.only == "TRUE":
        return where
    return replace(where, rest=all_of([where.rest, raw(asked.of_kind.only)]))


def live_rows(
    asked: AskedReport, where: Where, principal: Principal, *, ids: IdRange | None = None, messages: Sql | None = None
) -> Sql:
    """Return the query for the rows of a report, or the counts of its groups.

    `ids`: of the messages in a range only. `messages`: of those that this query of `message` returns, without looking
    at the filter again. Shape: the columns of `asked.read`, then `_id` and `_place`, or `_count`.
    """
    rows = _source(asked, where, principal, ids, messages)
    dialect = PostgresDialect(asked.time_zone)
    shown = [raw(f'({one.expression(dialect)})::{SQL_TYPES[one.type]} AS "{_quoted(one.name)}"') for one in asked.read]
    if asked.measures is not None:
        groups = join(", ", (raw(str(place + 1)) for place in range(len(shown))))
        counted = [*shown, raw(f'count(*)::bigint AS "{COUNT}"')]
        return Sql(
            "SELECT {counted} FROM {rows} GROUP BY {groups}", counted=join(", ", counted), rows=rows, groups=groups
        )
    row_id, place = _PLACES[asked.of_kind.grain]
    shown += [raw(f'({row_id})::bigint AS "{ID}"'), raw(f'({place})::bigint AS "{PLACE}"')]
    return Sql("SELECT {shown} FROM {rows}", shown=join(", ", shown), rows=rows)


def _quoted(name: str) -> str:
    return name.replace('"', '""').replace("%", "%%")


_PLACES = {
    Grain.MESSAGE: ("m.id", "0"),
    Grain.ATTEMPT: ("m.id", "t.attempt_number"),
    Grain.DECISION: ("m.id", "h.seq"),
    Grain.POISON: ("p.id", "0"),
}


def _source(asked: AskedReport, where: Where, principal: Principal, ids: IdRange | None, messages: Sql | None) -> Sql:
    grain = asked.of_kind.grain
    if grain is Grain.POISON:
        return _poison(asked, where, principal)
    rows = Sql("({messages}) AS m", messages=_messages(where, ids, messages))
    if "body" in asked.needs:
        rows += Sql("LEFT JOIN body AS b ON b.id = m.id AND {ids}", ids=_between("b.id", ids))
    if grain is Grain.MESSAGE:
        return rows + _LAST(tries=_tries(principal, Sql("t.message_id = m.id"))) if "last" in asked.needs else rows
    times = () if _message_times(asked) else asked.period.conditions(asked.of_kind.times[asked.period.by])
    if grain is Grain.ATTEMPT:
        tries = _tries(principal, _between("t.message_id", ids))
        rows += Sql("JOIN ({tries}) AS t ON t.message_id = m.id", tries=tries)
    else:
        lives = _HISTORY(of=_decided_messages(asked, ids, is_by_decision=bool(times)))
        rows += Sql("JOIN ({lives}) AS h ON h.message_id = m.id", lives=lives)
    return rows + Sql("WHERE {which}", which=all_of([raw(asked.of_kind.only), *_within(times)]))


def _tries(principal: Principal, which: Sql) -> Sql:
    """Return the attempts; the ids of the destinations in scope stand in the text, whatever it stands in."""
    seen = destinations_seen(principal, "d.id")
    return _TRY(seen=one_of("d.id", seen.parameters[0]) if seen.parameters else seen, which=which)


def _within(times: Iterable[tuple[str, Any]]) -> list[Sql]:
    return [Sql("{begin} {at}", begin=raw(begin), at=at) for begin, at in times]


def _messages(where: Where, ids: IdRange | None, messages: Sql | None) -> Sql:
    if messages is not None:
        return _MESSAGES(messages=Sql("({messages})", messages=messages), envelopes=TRUE, where=TRUE)
    # Said of each table that is joined: the planner then reads them side by side, and looks none up row by row.
    within = all_of([where.whole, _between("m.id", ids)])
    return _MESSAGES(messages=Sql("message"), envelopes=_between("e.id", ids), where=within)


def _between(column: str, ids: IdRange | None) -> Sql:
    return TRUE if ids is None else raw(f"{column} > {int(ids.after)} AND {column} <= {int(ids.until)}")


def _decided_messages(asked: AskedReport, ids: IdRange | None, *, is_by_decision: bool) -> Sql:
    """Return the condition that a message was decided on in the period, of all of its history."""
    if ids is not None or not is_by_decision:
        return _between("h.message_id", ids)
    decided = all_of([Sql("d.{decided}", decided=_DECIDED), *_within(asked.period.conditions("d.at"))])
    return Sql("h.message_id IN (SELECT d.message_id FROM history AS d WHERE {decided})", decided=decided)


def _poison(asked: AskedReport, where: Where, principal: Principal) -> Sql:
    entries = [source_scope(principal, "p.source")]
    if asked.filter:
        entries.append(Sql("p.message_id IN (SELECT m.id FROM message AS m WHERE {where})", where=where.whole))
    times = asked.period.conditions(asked.of_kind.times[asked.period.by])
    return Sql(
        "({poison}) AS p WHERE {within}",
        poison=_POISON(where=where.whole, entries=all_of(entries)),
        within=all_of(_within(times)),
    )


def as_may_be_read(asked: AskedReport, principal: Principal) -> AskedReport:
    """Return the report with what is masked for the principal now."""
    masks = masks_of(principal)
    if not masks:
        return asked
    names = fetch_values("SELECT name FROM address WHERE id = ANY(%s) ORDER BY name", [list(masks.address_ids)])
    read = [*asked.columns, *asked.cells]
    hidden = {one: [name for name in names if masks.at(name).hides(one)] for one in read}
    return replace(asked, hidden=HiddenColumns(hidden, sorted(masks.groups), masks.salt))


def as_text(sql: Sql) -> str:
    """Return a query with its values in it, for a task that asks the database by itself."""
    return str(connection.ops.compose_sql(*sql))  # type: ignore[attr-defined]


def range_statements(asked: AskedReport, principal: Principal, ranges: Sequence[IdRange]) -> list[str]:
    """Return a query for each range of messages, in their order; one alone for a kind that is read whole."""
    where = live_where(asked, principal)
    if asked.of_kind.grain is Grain.POISON:
        # Entries of the poison list of which no message is known come first.
        return [_ordered(asked, live_rows(asked, where, principal), "NULLS FIRST")]
    return [_ordered(asked, live_rows(asked, where, principal, ids=ids)) for ids in ranges]


def _ordered(asked: AskedReport, sql: Sql, nulls: str = "") -> str:
    order = EMPTY if asked.measures is not None else raw(f'ORDER BY "{ID}" {nulls}, "{PLACE}"')
    return as_text(sql + order)
