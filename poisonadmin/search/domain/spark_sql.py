"""Conditions in Spark's SQL, as text: values are written into it as literals. A text that is None cannot be asked."""

from collections.abc import Sequence
from datetime import UTC, datetime

# Each row is compared with each value.
MAX_COMPARED = 10_000


def spark_text(text: str) -> str:
    r"""Return a text as Spark's SQL writes it.

    >>> spark_text("it's \\d")
    "'it\\'s \\\\d'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_time(at: datetime) -> str:
    """Return a time as Spark's SQL writes it."""
    return f"TIMESTAMP {spark_text(at.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f') + ' UTC')}"


def is_one_of(column: str, values: Sequence[str | int]) -> str | None:
    """Return the condition that a column has one of the values; None where these are too many.

    >>> is_one_of("m.state", ["NDLV"]), is_one_of("m.group_id", [7, 8]), is_one_of("m.owner", [])
    ("m.state IN ('NDLV')", 'm.group_id IN (7, 8)', 'FALSE')
    """
    if len(values) > MAX_COMPARED:
        return None
    texts = [str(value) if isinstance(value, int) else spark_text(str(value)) for value in values]
    return f"{column} IN ({', '.join(texts)})" if texts else "FALSE"


def member(column: str, name: str) -> str:
    """Return the member of a column that is a JSON object of texts."""
    return f"from_json(m.{column}, 'map<string,string>')[{spark_text(name)}]"


def any_member_starts(column: str, start: str) -> str:
    """Return the condition that a member of a JSON object of texts begins so."""
    members = f"map_values(from_json(m.{column}, 'map<string,string>'))"
    return f"exists({members}, one -> startswith(one, {spark_text(start)}))"


def has_element(column: str, values: Sequence[str]) -> str:
    """Return the condition that a JSON array of texts has one of the values."""
    wanted = ", ".join(spark_text(value) for value in values)
    return f"arrays_overlap(from_json(m.{column}, 'array<string>'), array({wanted}))"


def either(*conditions: str | None) -> str | None:
    """Return the condition that one holds; None where one of them cannot be asked."""
    return None if None in conditions else " OR ".join(f"({one})" for one in conditions)
