"""A filter of messages as Spark's SQL over archived ones. What archived rows cannot say is refused by its name."""

from datetime import UTC, date, datetime

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.scope import destination_names_seen
from poisonadmin.core.queries.sql import Sql, all_given
from poisonadmin.messages.queries.archived_index import archived_files
from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.reports.domain.kinds import Grain, PeriodBy
from poisonadmin.reports.domain.reading import Archived
from poisonadmin.reports.queries.live import report_filter
from poisonadmin.search.domain.spark_sql import spark_time
from poisonadmin.search.domain.words import refusal
from poisonadmin.search.queries.archived import in_files
from poisonadmin.search.queries.meanings import SearchReader, fields_known

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
    days = Sql(
        """SELECT DISTINCT day FROM archive_file
        WHERE is_current AND table_name = 'messages' AND {since} ORDER BY day""",
        since=all_given({"day >= {value}": since}),
    )
    return list(fetch_values(days))


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
    conditions, outside = in_files(report_filter(asked), SearchReader(principal, _now()), is_exact=True)
    if outside:
        refused = refusal("Archived messages", outside[0], fields_known("files"))
        raise NotInArchive(outside[0], f"{refused} Begin the period later, or leave that out.")
    return " AND ".join(conditions) or "TRUE"


def _now() -> datetime:
    return datetime.now(UTC)


def row_conditions(asked: AskedReport) -> str:
    """Return what must hold of a row beside its message: what its kind says, and a period of its own time."""
    conditions = [asked.of_kind.only]
    if asked.of_kind.grain is not Grain.MESSAGE and asked.period.by is PeriodBy.FAILED:
        times = asked.period.conditions(asked.of_kind.times[asked.period.by])
        conditions += [f"{sql} {spark_time(value)}" for sql, value in times]
    return " AND ".join(f"({one})" for one in conditions)
