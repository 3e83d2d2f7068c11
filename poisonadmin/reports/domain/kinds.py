"""The kinds of reports: what a row is, which columns there are, and what is counted where rows are put into groups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any

from poisonadmin.core.domain.exports import ColumnType
from poisonadmin.decisions.operations.domain.actions import DECISION_EVENTS
from poisonadmin.reports.domain.columns import (
    ATTEMPT_COLUMNS,
    DECISION_COLUMNS,
    FAILURE_COLUMNS,
    MESSAGE_COLUMNS,
    POISON_COLUMNS,
    ReportColumn,
)


class ReportKind(StrEnum):
    """The kinds of reports."""

    FAILURES = "failures"
    ATTEMPTS = "attempts"
    DECISIONS = "decisions"
    AGEING = "ageing"
    REDELIVERY = "redelivery"
    BLACKLIST = "blacklist"
    TIME_TO_DECISION = "time_to_decision"


class Grain(StrEnum):
    """The rows of a query: a message, a try, a decision, or an entry of blacklist and poison list."""

    MESSAGE = "message"
    ATTEMPT = "attempt"
    DECISION = "decision"
    POISON = "poison"


class PeriodBy(StrEnum):
    """FAILED: when it happened, the last failure, the try or the decision; RECEIVED: when the message came in."""

    FAILED = "failed"
    RECEIVED = "received"


# Hours from which an age is of the next bracket.
BRACKETS = (
    ("under_1_hour", 0),
    ("1_to_4_hours", 1),
    ("4_to_24_hours", 4),
    ("1_to_3_days", 24),
    ("3_to_7_days", 72),
    ("7_to_30_days", 168),
    ("30_days_and_more", 720),
)

Counts = Mapping[Any, int]
"""How many rows of a group have which value."""


@dataclass(frozen=True)
class Measures:
    """The measures of each group: how often `of` has which value is read, and `measure` makes `columns` of it.

    `main`: the column that a pivot shows where none is chosen.
    """

    of: ReportColumn | None
    columns: tuple[tuple[str, ColumnType], ...]
    measure: Callable[[Counts], tuple[Any, ...]]
    main: str


@dataclass(frozen=True)
class KindInfo:
    """A kind. `times`: the expression of the time that a period is of. `only`: what must hold of a row.

    `measures`: where the kind has groups for rows, by default those of `group_by`. `in_archive`: whether archived
    messages can have any.
    """

    words: str
    grain: Grain
    columns: tuple[ReportColumn, ...]
    default: tuple[str, ...]
    times: Mapping[PeriodBy, str]
    only: str = "TRUE"
    measures: Measures | None = None
    group_by: tuple[str, ...] = ()
    in_archive: bool = True

    @property
    def by_name(self) -> dict[str, ReportColumn]:
        """The columns by name."""
        return {column.name: column for column in self.columns}


def _counted(counts: Counts) -> tuple[Any, ...]:
    return (sum(counts.values()),)


COUNT = Measures(None, (("count", ColumnType.WHOLE),), _counted, "count")


def redelivered(counts: Counts) -> tuple[int, int, int, float]:
    """Return how many tries there were, how many delivered and how many not, and the share that delivered, in percent.

    >>> redelivered({"delivered": 3, "failed": 4, "crashed": 1})
    (8, 3, 5, 37.5)
    """
    tries, delivered = sum(counts.values()), counts.get("delivered", 0)
    return tries, delivered, tries - delivered, round(100 * delivered / tries, 1) if tries else 0.0


def aged(counts: Counts) -> tuple[int, ...]:
    """Return how many are in each bracket of `BRACKETS`, how many there are, and the age of the oldest, in hours.

    >>> aged({0: 2, 3: 1, 24: 5, 800: 1})
    (2, 1, 0, 5, 0, 0, 1, 9, 800)
    """
    starts = [hours for _, hours in BRACKETS]
    found = [0] * len(starts)
    for hours, n in counts.items():
        found[max(place for place, start in enumerate(starts) if start <= max(hours, 0))] += n
    return (*found, sum(found), max(counts, default=0))


def decided_within(counts: Counts) -> tuple[int, float | None, float | None]:
    """Return how many decisions there were, and the mean and the median of the seconds before them.

    >>> decided_within({10: 2, 40: 1, 100: 1}), decided_within({5: 3})
    ((4, 40.0, 25.0), (3, 5.0, 5.0))
    """
    known = {seconds: n for seconds, n in counts.items() if seconds is not None}
    n = sum(known.values())
    if not n:
        return 0, None, None
    mean = sum(seconds * times for seconds, times in known.items()) / n
    return n, round(mean, 3), fmean((_nth(known, (n - 1) // 2), _nth(known, n // 2)))


def _nth(counts: Counts, place: int) -> int:
    """Return the value at a place, from 0, of all values in order."""
    for value in sorted(counts):
        place -= counts[value]
        if place < 0:
            return int(value)
    raise IndexError(place)


_AGE = ReportColumn(
    "age_hours",
    ColumnType.WHOLE,
    # Since its last failure: a decision that left it undecided, or was cancelled, makes it no younger (R19).
    lambda dialect: f"CAST(floor({dialect.seconds('coalesce(m.failed_at, m.state_at)', 'now()')} / 3600) AS bigint)",
)
_SECONDS = ReportColumn(
    "seconds", ColumnType.WHOLE, lambda dialect: f"CAST(round({dialect.seconds('h.before_at', 'h.at')}) AS bigint)"
)
_OUTCOME = next(column for column in ATTEMPT_COLUMNS if column.name == "outcome")
# Read as the address, and said as the policy that the address has now.
POLICY = ReportColumn("policy", ColumnType.TEXT, lambda _: "m.address")
_DECIDED = f"h.event IN ({', '.join(repr(event) for event in DECISION_EVENTS)})"
_RECEIVED = {PeriodBy.RECEIVED: "m.received_at"}
_OF_MESSAGE = _RECEIVED | {PeriodBy.FAILED: "m.failed_at"}

KINDS: Mapping[ReportKind, KindInfo] = {
    ReportKind.FAILURES: KindInfo(
        "Failures: a row a message",
        Grain.MESSAGE,
        FAILURE_COLUMNS,
        (
            *("id", "message_id", "address", "state", "reason", "failure_group", "error_class", "error_message"),
            *("attempt_number", "failure_count", "received_at", "failed_at", "owner", "tags"),
        ),
        _OF_MESSAGE,
        "(m.failed_at IS NOT NULL OR m.state IN ('NDLV', 'FAIL'))",
    ),
    ReportKind.ATTEMPTS: KindInfo(
        "Attempts: a row a try",
        Grain.ATTEMPT,
        ATTEMPT_COLUMNS,
        (
            *("id", "message_id", "address", "attempt_number", "started_at", "finished_at", "seconds", "outcome"),
            *("error_class", "error_message", "status_code", "destination", "node"),
        ),
        _RECEIVED | {PeriodBy.FAILED: "t.finished_at"},
    ),
    ReportKind.DECISIONS: KindInfo(
        "Decisions and their results",
        Grain.DECISION,
        DECISION_COLUMNS,
        (
            *("decided_at", "decided_by", "decision", "decision_reason", "id", "message_id", "address"),
            *("failure_group", "seconds_to_decision", "result", "result_at"),
        ),
        _RECEIVED | {PeriodBy.FAILED: "h.at"},
        _DECIDED,
    ),
    ReportKind.AGEING: KindInfo(
        "Age of the undecided",
        Grain.MESSAGE,
        MESSAGE_COLUMNS,
        (),
        _OF_MESSAGE,
        "m.state = 'NDLV'",
        Measures(
            _AGE,
            (
                *((name, ColumnType.WHOLE) for name, _ in BRACKETS),
                ("undecided", ColumnType.WHOLE),
                ("oldest_hours", ColumnType.WHOLE),
            ),
            aged,
            "undecided",
        ),
        ("address",),
        in_archive=False,
    ),
    ReportKind.REDELIVERY: KindInfo(
        "Success of deliveries by attempt",
        Grain.ATTEMPT,
        (*ATTEMPT_COLUMNS, POLICY),
        (),
        _RECEIVED | {PeriodBy.FAILED: "t.finished_at"},
        "t.attempt_number > 0",
        Measures(
            _OUTCOME,
            (
                ("tries", ColumnType.WHOLE),
                ("delivered", ColumnType.WHOLE),
                ("not_delivered", ColumnType.WHOLE),
                ("success_percent", ColumnType.DECIMAL),
            ),
            redelivered,
            "tries",
        ),
        ("policy", "attempt_number"),
    ),
    ReportKind.BLACKLIST: KindInfo(
        "Blacklist and poison list",
        Grain.POISON,
        POISON_COLUMNS,
        tuple(column.name for column in POISON_COLUMNS),
        {PeriodBy.FAILED: "p.since", PeriodBy.RECEIVED: "p.received_at"},
        in_archive=False,
    ),
    ReportKind.TIME_TO_DECISION: KindInfo(
        "Time to decision",
        Grain.DECISION,
        DECISION_COLUMNS,
        (),
        _RECEIVED | {PeriodBy.FAILED: "h.at"},
        f"{_DECIDED} AND h.from_state = 'NDLV'",
        Measures(
            _SECONDS,
            (
                ("decisions", ColumnType.WHOLE),
                ("mean_seconds", ColumnType.DECIMAL),
                ("median_seconds", ColumnType.DECIMAL),
            ),
            decided_within,
            "decisions",
        ),
        ("address",),
    ),
}
