"""Comparisons as they are shown."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from poisonadmin.comparisons.domain.findings import Finding, finding_from
from poisonadmin.comparisons.domain.sentences import sentence
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.destination_ids import destination_names_seen
from poisonadmin.core.queries.rows import fetch_by_id

_SELECT = """
SELECT id, state, selection_id, against, is_against_delivered, with_payload, phase, failing_count, others_count,
       failing, others, fields, tested, findings AS found, error, requested_by, requested_at, finished_at, expires_at,
       address_ids
FROM comparison WHERE id = %s AND expires_at > now()
"""


@dataclass(frozen=True)
class ComparedCondition:
    """A condition of a finding. `value`: a text for `=`, a number for `>=` and `<`, null for `exists` and `missing`."""

    field: str
    operator: str
    value: Any


@dataclass(frozen=True)
class FindingRow:
    """What the failing messages have in common: all `conditions` hold, and `also` what holds for nearly the same.

    `share`, `share_of_others`: of those that were compared, 0..1; `lift`: their ratio. `p_value`: corrected for
    everything that was tried.
    """

    conditions: Sequence[ComparedCondition]
    also: Sequence[ComparedCondition]
    share: float
    share_of_others: float
    lift: float
    p_value: float
    text: str


@dataclass(frozen=True)
class ComparisonRow:
    """A comparison. `failing_count`, `others_count`: how many messages there are, `failing`, `others`: how many of
    these were compared; null as long as it is not known. `against`: the filter that the others were found by.
    """

    id: int
    state: str
    selection_id: int
    against: Mapping[str, list[str]] | None
    is_against_delivered: bool
    with_payload: bool
    phase: str | None
    failing_count: int | None
    others_count: int | None
    failing: int | None
    others: int | None
    fields: int | None
    tested: int | None
    found: Sequence[Any]
    error: str | None
    requested_by: str
    requested_at: datetime
    finished_at: datetime | None
    expires_at: datetime
    address_ids: Sequence[int]

    @property
    def findings(self) -> list[FindingRow]:
        """What they have in common, best first."""
        others = "of those delivered" if self.is_against_delivered else "of the others"
        return [_row(finding_from(one), others) for one in self.found]

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be known."""
        return self.finished_at is not None


def _row(finding: Finding, others: str) -> FindingRow:
    return FindingRow(
        [ComparedCondition(**one.as_json()) for one in finding.conditions],
        [ComparedCondition(**one.as_json()) for one in finding.also],
        finding.counts.share,
        finding.counts.share_of_others,
        finding.counts.lift,
        finding.p_value,
        sentence(finding, others=others),
    )


def get_comparison(comparison_id: int, *, principal: Principal) -> ComparisonRow:
    """Return the comparison. Errors: `NotAllowed`; `NotFound`, also where a message of either side is out of scope."""
    principal.require(Permission.READ)
    found = fetch_by_id(ComparisonRow, _SELECT, comparison_id)
    visible = visible_ids(principal)
    if found is None or (visible is not None and not set(found.address_ids) <= set(visible)):
        raise NotFound(f"There is no comparison {comparison_id}.")
    if found.with_payload:
        principal.require(Permission.READ_PAYLOAD)
    seen = destination_names_seen(principal)
    return found if seen is None else replace(found, found=list(_known(found.found, seen)))


def _known(findings: Sequence[Any], destinations: Collection[str]) -> Iterator[Any]:
    """Yield the findings that name no destination but these."""

    def is_known(condition: Mapping[str, Any]) -> bool:
        return condition["field"] != "destination" or condition["value"] in {None, *destinations}

    for one in findings:
        if all(is_known(condition) for condition in one["conditions"]):
            yield {**one, "also": [condition for condition in one["also"] if is_known(condition)]}
