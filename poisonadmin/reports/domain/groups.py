"""The rows of groups, from how often each group has which value. In a pivot the values of one column are columns."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from typing import Any
from zoneinfo import ZoneInfo

from poisonadmin.core.domain.exports import IDS, ColumnType, Row, Schema
from poisonadmin.reports.domain.asked import AskedReport
from poisonadmin.reports.domain.kinds import Counts

# The most frequent ones have a column each; all others have one together.
PIVOT_VALUES = 50
MAX_HEADING_CHARS = 100


@dataclass(frozen=True)
class ReportTable:
    """Rows, and the name and the type of each of their columns."""

    schema: Schema
    rows: list[Row]


def folded(asked: AskedReport, groups: Mapping[Row, Counts]) -> ReportTable:
    """Return the rows of a report from how often each group has which value.

    Shape: the largest groups first, or in the order of days, hours and attempts. Of a pivot the values follow the
    columns of the groups, then what all others come to, if there are more than `PIVOT_VALUES`, then the whole group.
    """
    assert asked.measures is not None
    if asked.pivot is not None:
        return _pivoted(asked, groups)
    names = (*asked.group_by, *(name for name, _ in asked.measures.columns))
    places = [names.index(name) for name in asked.columns]
    rows = [((*group, *asked.measures.measure(counts)), sum(counts.values())) for group, counts in groups.items()]
    return ReportTable(asked.schema, [tuple(row[place] for place in places) for row in _in_order(asked, rows)])


def _pivoted(asked: AskedReport, groups: Mapping[Row, Counts]) -> ReportTable:
    by_group: dict[Row, dict[Any, Counts]] = defaultdict(dict)
    sizes: Counter[Any] = Counter()
    for (*group, value), counts in groups.items():
        by_group[tuple(group)][value] = counts
        sizes[value] += sum(counts.values())
    frequent = sorted(sizes, key=lambda value: (-sizes[value], _sortable(value)))
    shown, rest = frequent[:PIVOT_VALUES], frozenset(frequent[PIVOT_VALUES:])
    if _is_in_order(str(asked.pivot)):
        shown.sort(key=_sortable)
    rows = []
    for fixed_values, values in by_group.items():
        cells = [values.get(value, {}) for value in shown]
        others = [_together(counts for value, counts in values.items() if value in rest)] if rest else []
        whole = _together(values.values())
        figures = (_figure(asked, counts) for counts in (*cells, *others, whole))
        rows.append(((*fixed_values, *figures), sum(whole.values())))
    *fixed, figure = asked.schema
    names = [*(f"others ({len(rest)} values)" for _ in range(bool(rest))), figure[0]]
    taken = {*asked.group_by, *names, *IDS}
    headings = [*_headings(shown, taken, ZoneInfo(asked.time_zone)), *names]
    return ReportTable((*fixed, *((name, figure[1]) for name in headings)), _in_order(asked, rows))


def _together(counts: Iterable[Counts]) -> Counts:
    found: Counter[Any] = Counter()
    for one in counts:
        found.update(one)
    return found


def _figure(asked: AskedReport, counts: Counts) -> Any:
    """Return the figure of a cell. Where there is no row, a number of things is 0, and a mean or a share is unknown."""
    assert asked.measures is not None
    names = [name for name, _ in asked.measures.columns]
    place = names.index(str(asked.figure))
    if not counts and asked.measures.columns[place][1] is ColumnType.DECIMAL:
        return None
    return asked.measures.measure(counts)[place]


def _headings(values: Iterable[Any], taken: set[str], zone: ZoneInfo) -> Iterable[str]:
    """Yield a name for each value. No two columns have one name, whatever the values are."""
    for value in values:
        text = _text(value, zone)
        name = next(one for one in chain([text], (f"{text} ({n})" for n in count(2))) if one not in taken)
        taken.add(name)
        yield name


def _text(value: Any, zone: ZoneInfo) -> str:
    if value is None or value == "":
        return "(none)" if value is None else "(empty)"
    if isinstance(value, datetime):
        return value.astimezone(zone).isoformat(timespec="milliseconds")
    text = str(value)
    return text if len(text) <= MAX_HEADING_CHARS else f"{text[: MAX_HEADING_CHARS - 1]}…"


def _in_order(asked: AskedReport, rows: Iterable[tuple[Row, int]]) -> list[Row]:
    # Rows of a time, or of attempts, read best in their order; all others by size.
    is_in_order = any(map(_is_in_order, asked.group_by))

    def order(sized: tuple[Row, int]) -> tuple[Any, ...]:
        group = tuple(map(_sortable, sized[0][: len(asked.group_by)]))
        return group if is_in_order else (-sized[1], group)

    return [row for row, _ in sorted(rows, key=order)]


def _is_in_order(name: str) -> bool:
    return name.endswith(("_day", "_hour", "attempt_number"))


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)
