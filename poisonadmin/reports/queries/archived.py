"""A filter of messages as Spark's SQL over archived ones. What archived rows cannot say is refused by its name."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.address_ids import pattern_regex
from poisonadmin.core.queries.destination_ids import destination_names_seen
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.messages.queries.archive_files import archived_files
from poisonadmin.messages.queries.merged_groups import with_members
from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.reports.domain.kinds import Grain, PeriodBy
from poisonadmin.reports.domain.reading import Archived, SparkDialect, spark_text
from poisonadmin.reports.queries.live import report_filter
from poisonadmin.search.domain.filters import Term
from poisonadmin.search.queries.group_words import as_groups
from poisonadmin.search.queries.owners import NOBODY

_TABLES = {
    Grain.MESSAGE: ("messages", "attempts"),
    Grain.ATTEMPT: ("messages", "attempts"),
    Grain.DECISION: ("messages", "history"),
}


class NotInArchive(InvalidFilter):
    """Raised when a filter says something that archived messages cannot be asked for; a shorter period avoids them."""

    code = "not_in_archive"

    def __init__(self, parameter: str, detail: str) -> None:
        super().__init__(parameter, detail, code=self.code)


def archived_days(asked: AskedReport) -> list[date]:
    """Return the days of which archived messages may be in the report, in their order.

    A message is archived under the day on which it ended, which is never before it came in, failed or was decided on.
    """
    if not asked.of_kind.in_archive:
        return []
    since = None if asked.period.since is None else asked.period.since.astimezone(UTC).date()
    where, parameters = ("TRUE", []) if since is None else ("day >= %s", [since])
    sql = f"SELECT DISTINCT day FROM archive_file WHERE is_current AND table_name = 'messages' AND {where} ORDER BY day"  # noqa: S608
    return list(fetch_values(sql, parameters))


def archive_version() -> str:
    """Return what changes whenever rows move between the database and the archive."""
    ((count, newest, total),) = fetch_rows(
        "SELECT count(*), coalesce(max(id), 0), coalesce(sum(id), 0) FROM archive_file WHERE is_current"
    )
    return f"{count}-{newest}-{total}"


def archived_on(day: date, asked: AskedReport, principal: Principal) -> Archived:
    """Return what the principal's report reads of the messages that ended on a day. Errors: as `archived_where`."""
    tables = _TABLES[asked.of_kind.grain]
    files = {table: archived_files(table, since=day, until=day) for table in tables}
    where = archived_where(asked, principal)
    return Archived(files, where, row_conditions(asked), destination_names_seen(principal))


def archived_where(asked: AskedReport, principal: Principal) -> str:
    """Return the filter, the kind, the period and the scope as Spark's SQL over `m`, an archived message.

    Errors: `NotInArchive`, `InvalidFilter`.
    """
    conditions = [_scope(principal)]
    for term in (as_groups(one, principal) for one in report_filter(asked).terms):
        condition_of = _CONDITIONS.get(term.field)
        if condition_of is None:
            raise NotInArchive(
                term.field,
                f"The period reaches archived messages, which cannot be asked for {term.field}."
                " Begin it later, or leave that out.",
            )
        # As in the database: NOT of an unknown would hide rows.
        conditions.append(f"NOT coalesce({condition_of(term)}, FALSE)" if term.negated else f"({condition_of(term)})")
    return " AND ".join(conditions)


def row_conditions(asked: AskedReport) -> str:
    """Return what must hold of a row beside its message: what its kind says, and a period of its own time."""
    conditions = [asked.of_kind.only]
    if asked.of_kind.grain is not Grain.MESSAGE and asked.period.by is PeriodBy.FAILED:
        times = asked.period.conditions(asked.of_kind.times[asked.period.by])
        conditions += [f"{sql} {_time(value)}" for sql, value in times]
    return " AND ".join(f"({one})" for one in conditions)


def _scope(principal: Principal) -> str:
    return " AND ".join(["TRUE", *(f"({_on('m.address', some)})" for some in principal.patterns if some)])


def _on(column: str, patterns: Sequence[str]) -> str:
    found = " OR ".join(f"concat({column}, '.') RLIKE {spark_text(pattern_regex(one))}" for one in patterns)
    return found or "FALSE"


def _time(value: datetime) -> str:
    return f"TIMESTAMP {spark_text(value.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f') + ' UTC')}"


def _texts(column: str) -> Callable[[Term], str]:
    return lambda term: _any(column, term.values)


def _any(column: str, values: Sequence[Any]) -> str:
    return f"{column} IN ({', '.join(spark_text(str(value)) for value in values)})" if values else "FALSE"


def _numbers(column: str, values: Sequence[int]) -> str:
    return f"{column} IN ({', '.join(str(int(value)) for value in values)})" if values else "FALSE"


def _compared(column: str) -> Callable[[Term], str]:
    return lambda term: f"{column} {term.operator} {_time(term.values[0])}"


def _age(column: str) -> Callable[[Term], str]:
    def condition(term: Term) -> str:
        (at,) = fetch_values("SELECT now() - %s::interval", [term.values[0]])
        return f"{column} > {_time(at)}"

    return condition


def _owner(term: Term) -> str:
    return _any("m.owner", term.values) + (" OR m.owner IS NULL" if NOBODY in term.values else "")


def _tag(term: Term) -> str:
    wanted = ", ".join(spark_text(str(value)) for value in term.values)
    return f"arrays_overlap(from_json(m.tag_list, 'array<string>'), array({wanted}))"


_UTC = SparkDialect("UTC")
_CONDITIONS: dict[str, Callable[[Term], str]] = {
    "state": _texts("m.state"),
    "reason": _texts("m.reason"),
    "address": lambda term: _on("m.address", term.values),
    "original_address": lambda term: _on("m.original_address", term.values),
    "group": lambda term: _numbers("m.group_id", with_members(term.values)),
    "message_id": _texts("m.message_id"),
    "conversation_id": _texts("m.conversation_id"),
    "received_at": _compared("m.received_at"),
    "failed_at": _compared("m.failed_at"),
    "age": _age("m.received_at"),
    "failure_age": _age("m.failed_at"),
    "attempts": lambda term: f"m.attempt_number {term.operator} {int(term.values[0])}",
    "header": lambda term: _any(_UTC.header(term.name), term.values),
    "key": lambda term: _any(_UTC.key(term.name), term.values),
    "owner": _owner,
    "tag": _tag,
}
