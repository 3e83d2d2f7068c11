"""The counters of `/metrics`: their labels, and how many values of each have series of their own.

A label whose values clients choose would make one series a value, without end: `MOST_VALUES` have series of their own,
those that came first, and the others are counted as `other`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MOST_VALUES = 50
MAX_VALUE_CHARS = 100
OTHER = "other"
# The upper ends of the histogram of attempts, in seconds.
BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
# Takes the place of a bucket: the sum of all seconds.
SUM = "sum"

Labels = tuple[str, ...]


@dataclass(frozen=True)
class CounterMetric:
    """`bounded`: the labels whose values are chosen by clients, messages or consumers."""

    about: str
    labels: Sequence[str]
    bounded: Sequence[str]


EVENTS, ATTEMPTS, SECONDS = "events", "attempts", "attempt_seconds"
COUNTERS: Mapping[str, CounterMetric] = {
    EVENTS: CounterMetric(
        "Rows of messages' histories but `claimed`, by the first word of the address where the message came in first.",
        ("root", "event", "state", "by_operation"),
        ("root",),
    ),
    ATTEMPTS: CounterMetric(
        "Deliveries that ended, by how.", ("destination", "outcome", "error_class"), ("destination", "error_class")
    ),
    SECONDS: CounterMetric("How long deliveries took.", ("destination", "bucket"), ("destination",)),
}


def bounded_series(
    counted: Iterable[tuple[str, Labels, float]], known: Iterable[tuple[str, Labels]]
) -> dict[tuple[str, Labels], float]:
    """Return what was counted by metric and labels, with `OTHER` for the values that are too many.

    `known`: the series that there are.

    >>> one = [("attempts", ("crm", "failed", "IOError"), 2.0)]
    >>> bounded_series(one, [])
    {('attempts', ('crm', 'failed', 'IOError')): 2.0}
    >>> bounded_series(one, [("attempts", (f"d{n}", "failed", "IOError")) for n in range(50)])
    {('attempts', ('other', 'failed', 'IOError')): 2.0}
    """
    values: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for metric, labels in known:
        for place, value in enumerate(labels):
            values[metric, place].add(value)
    found: defaultdict[tuple[str, Labels], float] = defaultdict(float)
    for metric, labels, n in counted:
        declared = COUNTERS[metric]
        bounded = tuple(
            _bounded(value[:MAX_VALUE_CHARS], values[metric, place]) if label in declared.bounded else value
            for place, (label, value) in enumerate(zip(declared.labels, labels, strict=True))
        )
        found[metric, bounded] += n
    return dict(found)


def _bounded(value: str, known: set[str]) -> str:
    if value not in known and len(known - {OTHER}) >= MOST_VALUES:
        return OTHER
    known.add(value)
    return value
