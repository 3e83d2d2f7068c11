"""Made-up incidents for comparisons: messages with noisy fields, and what makes some of them fail planted among these.

One seed is one incident. Columns are numpy arrays with the failing messages first, so that a hundred incidents of
100,000 messages take minutes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from poisonadmin.comparisons.domain.conditions import FieldCondition, Operator
from poisonadmin.comparisons.domain.cuts import Bin, best_cut
from poisonadmin.comparisons.domain.findings import Candidate, Finding, Sample, find

NOISY_FIELDS = 40
VERSION, REGION, TOTAL = "header.client-version", "key.region", "payload.$.order.total"
_CUTS = 32


@dataclass(frozen=True)
class Incident:
    """The values of each field, failing messages first, and the conditions that make them fail; empty for none."""

    columns: Mapping[str, np.ndarray[Any, Any]]
    sample: Sample
    cause: tuple[FieldCondition, ...]


def make_incident(kind: str, seed: int, *, failing: int = 1_000, others: int = 99_000) -> Incident:
    """Return an incident of a kind in `KINDS`."""
    dice = np.random.default_rng([seed, *kind.encode()])
    sample = Sample(failing, others)
    columns = {f"payload.$.noise.f{n}": _noise(n, dice, failing + others) for n in range(NOISY_FIELDS)}
    planted, cause = KINDS[kind](dice, sample)
    return Incident(columns | planted, sample, cause)


def _noise(n: int, dice: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Return one of five sorts of fields: few values, many uneven ones, amounts, small numbers, unlike texts."""
    if n % 5 == 0:
        return dice.choice(np.array(["a", "b", "c", "d"]), count, p=dice.dirichlet(np.ones(4)))
    if n % 5 == 1:
        return np.array([f"v{value}" for value in range(300)])[np.minimum(dice.zipf(1.5, count), 300) - 1]
    if n % 5 == 2:
        return np.round(dice.lognormal(4, 1, count), 2)
    if n % 5 == 3:
        return dice.poisson(6, count).astype(float)
    return np.array([f"id-{value}" for value in range(5_000)])[dice.integers(0, 5_000, count)]


def _mixed(dice: np.random.Generator, sample: Sample, share: float, share_of_others: float) -> np.ndarray[Any, Any]:
    failing, others = dice.random(sample.failing) < share, dice.random(sample.others) < share_of_others
    return np.concatenate([failing, others])


Planted = tuple[dict[str, np.ndarray[Any, Any]], tuple[FieldCondition, ...]]


def _one_field(dice: np.random.Generator, sample: Sample) -> Planted:
    bad = _mixed(dice, sample, 0.98, 0.03)
    good = dice.choice(np.array(["4.0.7", "4.1.0", "4.1.1"]), len(bad))
    return {VERSION: np.where(bad, "4.2.0", good)}, (FieldCondition(VERSION, Operator.IS, "4.2.0"),)


def _two_fields(dice: np.random.Generator, sample: Sample) -> Planted:
    """Either field alone says little: two fifths of all messages have it, and three quarters of the failing ones."""
    both = _mixed(dice, sample, 0.6, 0.0)
    one, other = (both | (dice.random(len(both)) < 0.4) for _ in range(2))
    # Where both met, nearly all failed: of those delivered few are left.
    delivered = np.concatenate([np.zeros(sample.failing, bool), dice.random(sample.others) < 0.95])
    other = other & ~(one & other & delivered)
    columns = {
        VERSION: np.where(one, "4.2.0", dice.choice(np.array(["4.1.0", "4.1.1"]), len(both))),
        REGION: np.where(other, "eu", dice.choice(np.array(["us", "asia", "africa"]), len(both))),
    }
    return columns, (FieldCondition(VERSION, Operator.IS, "4.2.0"), FieldCondition(REGION, Operator.IS, "eu"))


def _threshold(dice: np.random.Generator, sample: Sample) -> Planted:
    high = _mixed(dice, sample, 0.97, 0.04)
    totals = np.where(
        high, 1000 + dice.exponential(700, len(high)), np.minimum(dice.lognormal(5, 1, len(high)), 999.99)
    )
    return {TOTAL: np.round(totals, 2)}, (FieldCondition(TOTAL, Operator.AT_LEAST, 1000.0),)


def _no_cause(dice: np.random.Generator, sample: Sample) -> Planted:
    return {VERSION: dice.choice(np.array(["4.1.0", "4.2.0"]), sample.failing + sample.others)}, ()


KINDS: dict[str, Callable[[np.random.Generator, Sample], Planted]] = {
    "one field": _one_field,
    "two fields": _two_fields,
    "threshold": _threshold,
    "no cause": _no_cause,
}


def findings_of(incident: Incident) -> list[Finding]:
    """Return what the domain finds in an incident, whose values are counted here instead of by Spark."""
    candidates: list[Candidate] = []
    tested = 0
    for field, column in incident.columns.items():
        found = _numeric(field, column, incident.sample) if column.dtype.kind == "f" else iter(())
        for condition, holds, tried in (*_equal(field, column, incident.sample), *found):
            tested += tried
            if condition is not None:
                candidates.append(Candidate(condition, _bits(holds)))
    return find(candidates, incident.sample, tested=tested)


Tried = tuple[FieldCondition | None, Any, int]


def _equal(field: str, column: np.ndarray[Any, Any], sample: Sample) -> Iterator[Tried]:
    values, codes = np.unique(column, return_inverse=True)
    failing = np.bincount(codes[: sample.failing], minlength=len(values))
    every = np.bincount(codes, minlength=len(values))
    yield None, None, int((every >= sample.fewest).sum())
    for code in np.flatnonzero(failing >= sample.fewest):
        value = f"{values[code]:g}" if column.dtype.kind == "f" else str(values[code])
        yield FieldCondition(field, Operator.IS, value), codes == code, 0


def _numeric(field: str, column: np.ndarray[Any, Any], sample: Sample) -> Iterator[Tried]:
    cuts = np.unique(np.quantile(column[: sample.failing], np.linspace(0, 1, _CUTS, endpoint=False)[1:]))
    cuts = np.unique(np.concatenate([cuts, np.quantile(column, np.linspace(0, 1, _CUTS, endpoint=False)[1:])]))
    bins = _binned(column, cuts, sample)
    yield None, None, 2 * (len(bins) - 1)
    if (rough := best_cut(bins, sample.failing, sample.others)) is None:
        return
    near = np.unique(column[(column >= bins[rough.after].low) & (column <= bins[rough.until].high)])
    bins = _binned(column, near, sample)
    yield None, None, 2 * (len(bins) - 1)
    if (cut := best_cut(bins, sample.failing, sample.others)) is not None:
        holds = column >= cut.value if cut.operator is Operator.AT_LEAST else column < cut.value
        yield FieldCondition(field, cut.operator, cut.value), holds, 0


def _binned(column: np.ndarray[Any, Any], cuts: np.ndarray[Any, Any], sample: Sample) -> list[Bin]:
    places = np.searchsorted(cuts, column, side="right")
    order = np.argsort(column, kind="stable")
    # By rising values, so that the first and the last one of a bin are its lowest and its highest.
    inside, firsts, counts = np.unique(places[order], return_index=True, return_counts=True)
    failing = np.bincount(places[: sample.failing], minlength=len(cuts) + 1)[inside]
    bins = (column[order[firsts]], column[order[firsts + counts - 1]], failing, counts - failing)
    return [Bin(*one) for one in zip(*(values.tolist() for values in bins), strict=True)]


def _bits(holds: np.ndarray[Any, Any]) -> int:
    return int.from_bytes(np.packbits(holds, bitorder="little").tobytes(), "little")


def is_first(incident: Incident, findings: list[Finding]) -> bool:
    """Return whether the cause is the first finding, a threshold within a hundredth; or, without a cause, none is."""
    if not incident.cause or not findings:
        return not incident.cause and not findings
    first = {one.field: one for one in findings[0].conditions}
    return set(first) == {one.field for one in incident.cause} and all(
        _is_about(first[one.field], one) for one in incident.cause
    )


def _is_about(found: FieldCondition, planted: FieldCondition) -> bool:
    if isinstance(planted.value, float) and isinstance(found.value, float):
        return found.operator == planted.operator and abs(found.value - planted.value) <= abs(planted.value) / 100
    return found == planted
