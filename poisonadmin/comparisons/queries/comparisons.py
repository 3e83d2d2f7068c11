"""Comparisons as they are shown."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.comparisons.domain.findings import Finding, finding_from, sentence
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.masking import Masks
from poisonadmin.core.queries.masking import masks_of
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.scope import destination_names_seen, visible_ids
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.runs.queries.runs import RunFields, StoredRun, find_run


@dataclass(frozen=True)
class ComparedCondition:
    """A condition of a finding. `value`: a text for `=`, a number for `>=` and `<`, null for `exists` and `missing`."""

    field: str
    operator: str
    value: Any


@dataclass(frozen=True)
class FindingRow:
    """A finding: of the failing messages all `conditions` hold, and `also` what holds for nearly the same.

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
class ComparisonResult:
    """Counts and findings, null as long as they are not known.

    `failing_count`, `others_count`: how many messages there are; `failing`, `others`: how many of these were compared.
    `findings`: what the failing ones have in common, best first.
    """

    failing_count: int
    others_count: int
    failing: int | None
    others: int | None
    fields: int | None
    tested: int | None
    findings: Sequence[FindingRow]


@dataclass(frozen=True)
class ComparisonRow(RunFields):
    """A comparison. `against`: the filter that the others are found by; null as long as it is not known."""

    selection_id: int
    against: Mapping[str, list[str]] | None
    is_against_delivered: bool
    with_payload: bool
    result: ComparisonResult | None


# The addresses, and those that messages on them were moved from.
_PLACES = """
SELECT name FROM address WHERE id = ANY(%(ids)s)
OR id IN (SELECT original_address_id FROM counter WHERE address_id = ANY(%(ids)s))
"""


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
    run = find_run(KindName.COMPARE, comparison_id)
    visible = visible_ids(principal)
    if run is None or (visible is not None and not _addresses(run) <= set(visible)):
        raise NotFound(f"There is no comparison {comparison_id}.")
    if run.params["with_payload"]:
        principal.require(Permission.READ_PAYLOAD)
    is_against_delivered = run.params["against"] is None
    return ComparisonRow(
        **run.shown,
        selection_id=run.params["selection_id"],
        against=run.params["against"] if run.result is None else run.result["against"],
        is_against_delivered=is_against_delivered,
        with_payload=run.params["with_payload"],
        result=None if run.result is None else _result(run, is_against_delivered, principal),
    )


def _addresses(run: StoredRun) -> set[int]:
    return {*run.params["address_ids"], *((run.result or {}).get("address_ids", []))}


def _result(run: StoredRun, is_against_delivered: bool, principal: Principal) -> ComparisonResult:
    stored: Mapping[str, Any] = run.result or {}
    others = "of those delivered" if is_against_delivered else "of the others"
    findings: Iterable[Any] = stored.get("findings", [])
    seen = destination_names_seen(principal)
    if seen is not None:
        findings = _known(findings, seen)
    names = fetch_values(_PLACES, {"ids": [*_addresses(run), *stored.get("former_address_ids", [])]})
    if masks := masks_of(principal).at(*names):
        findings = [_masked(one, masks) for one in findings]
    figures = {
        name: stored.get(name) for name in ("failing_count", "others_count", "failing", "others", "fields", "tested")
    }
    return ComparisonResult(**figures, findings=[_row(finding_from(one), others) for one in findings])  # type: ignore[arg-type]


def _masked(finding: Mapping[str, Any], masks: Masks) -> dict[str, Any]:
    """Return a finding whose values are masked where their fields are."""

    def shown(condition: Mapping[str, Any]) -> Mapping[str, Any]:
        if condition["value"] is None or not masks.hides(condition["field"]):
            return condition
        return {**condition, "operator": "=", "value": masks.mark(str(condition["value"]))}

    return {**finding, **{name: [shown(one) for one in finding[name]] for name in ("conditions", "also")}}


def _known(findings: Iterable[Any], destinations: Collection[str]) -> Iterator[Any]:
    """Yield the findings that name no destination but these."""

    def is_known(condition: Mapping[str, Any]) -> bool:
        return condition["field"] != "destination" or condition["value"] in {None, *destinations}

    for one in findings:
        if all(is_known(condition) for condition in one["conditions"]):
            yield {**one, "also": [condition for condition in one["also"] if is_known(condition)]}
