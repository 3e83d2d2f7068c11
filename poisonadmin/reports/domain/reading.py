"""The orders to a task that reads: a wave of a report's rows, live ones or archived ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.search.domain.spark_sql import member, spark_text


@dataclass(frozen=True)
class Archived:
    """Files of the archive by table, paths or URLs; `where`: what must hold of their messages, as Spark's SQL over `m`,
    and `rows`: of the rows of the report. `destinations`: those that whoever asked may know of; None: all.
    """

    files: dict[str, list[str]]
    where: str
    rows: str
    destinations: Sequence[str] | None = None


@dataclass(frozen=True)
class Reading:
    """A wave: `statements` for the database, which tasks share, or `archived` files."""

    asked: AskedReport
    statements: Sequence[str] = ()
    archived: Archived | None = None


class SparkDialect:
    """The expressions of columns as Spark says them."""

    def __init__(self, time_zone: str) -> None:
        self._zone = spark_text(ZoneInfo(time_zone).key)

    def day(self, at: str) -> str:
        """Return the day, in the report's time zone."""
        return f"date_format({self._local(at)}, 'yyyy-MM-dd')"

    def hour(self, at: str) -> str:
        """Return the day and the hour, in the report's time zone."""
        return f"date_format({self._local(at)}, 'yyyy-MM-dd HH:00')"

    def _local(self, at: str) -> str:
        return f"convert_timezone(current_timezone(), {self._zone}, CAST({at} AS timestamp_ntz))"

    def seconds(self, since: str, until: str) -> str:
        """Return how many seconds lie between two times."""
        return f"((unix_micros({until}) - unix_micros({since})) / 1000000D)"

    def header(self, name: str) -> str:
        """Return a header."""
        return member("headers", name)

    def key(self, name: str) -> str:
        """Return a business key."""
        return member("keys", name)

    def payload(self, most: int) -> str:
        """Return the beginning of the payload."""
        return f"substring(m.payload, 1, {int(most)})"

    def mark(self, value: str, salt: str, *, is_bytes: bool) -> str:
        """Return what is read in place of a masked value."""
        marked = f"'[masked:' || left(sha2('{salt}' || md5({value}), 256), 8) || ']'"
        return f"encode({marked}, 'UTF-8')" if is_bytes else marked

    def is_any(self, value: str, names: Sequence[str]) -> str:
        """Return the condition that a value is one of the names."""
        return f"{value} IN ({', '.join(map(spark_text, names))})"

    def was_at(self, message_id: str, names: Sequence[str]) -> str:  # noqa: ARG002
        """Return the condition that a message was at one of the names before; no archived row says it."""
        return "FALSE"
