"""The messages that a comparison compares, and its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from poisonadmin.comparisons.domain.findings import Finding

# So many messages are looked at; of more, chosen ones.
MAX_FAILING = 10_000
MAX_OTHERS = 100_000
# Payloads of all of them together.
MAX_BYTES = 512 * 1024 * 1024
# What is read of them.
TABLES = ("messages", "attempts")


@dataclass(frozen=True)
class Compared:
    """Which messages are compared, by their ids, rising; and whether by their payloads, too.

    `archived`: those of both that are in `files` of the archive (paths or URLs, by table), and not in the database.
    `destinations`: those that whoever asked may know of; None: all. `excluded_fields`: fields by which the others were
    chosen to be different; nothing is found in them.
    """

    failing: Sequence[int]
    others: Sequence[int]
    with_payload: bool
    archived: Sequence[int] = ()
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    destinations: Sequence[str] | None = None
    excluded_fields: Sequence[str] = ()


@dataclass(frozen=True)
class ComparisonAnswer:
    """The result of a comparison: numbers of compared messages, fields and conditions; findings, best first."""

    failing: int
    others: int
    fields: int
    tested: int
    findings: Sequence[Finding]
