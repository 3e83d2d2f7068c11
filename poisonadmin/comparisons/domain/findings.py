"""Finds what failing messages share that others have not: one condition or two together, best first; and says it.

Messages are bits of whole numbers, the failing ones lowest, so that what two conditions share is one `&`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from math import ceil, exp
from typing import Any

from poisonadmin.comparisons.domain.association import Association, holm
from poisonadmin.comparisons.domain.conditions import FieldCondition, condition_from

# The chance that a comparison without a cause names one is at most this.
ALPHA = 0.01
# Less is true, maybe, and no help.
MIN_SHARE = 0.05
MIN_DIFFERENCE = 0.05
MIN_LIFT = 1.5
FEWEST = 3
# So many conditions are tried in pairs, those that tell most apart; and so many findings are said.
MOST_IN_PAIRS = 100
MOST_FINDINGS = 10
MOST_ALSO = 10
# Conditions are one finding where of all messages that fulfil either, at least so many fulfil both.
_SAME = 0.9
# Of what goes with a finding, so much is said in a sentence.
_ALSO = 3


@dataclass(frozen=True)
class Sample:
    """The numbers of compared messages; the first `failing` bits of a condition are the failing ones'."""

    failing: int
    others: int

    @property
    def fewest(self) -> int:
        """The least number of failing messages of a finding."""
        return max(FEWEST, ceil(self.failing * MIN_SHARE))

    @property
    def all(self) -> int:
        """The bits of all messages."""
        return (1 << (self.failing + self.others)) - 1

    def counts(self, holds: int, within: int) -> Association:
        """Return how many of the messages `within` are among `holds`."""
        mask = (1 << self.failing) - 1
        hits, all_within = holds & within, within.bit_count()
        failing = (within & mask).bit_count()
        return Association((hits & mask).bit_count(), failing, (hits >> self.failing).bit_count(), all_within - failing)


@dataclass(frozen=True)
class Candidate:
    """A condition, and which messages fulfil it, as bits."""

    condition: FieldCondition
    holds: int


@dataclass(frozen=True)
class Finding:
    """All `conditions` hold. `also`: what holds for nearly the same messages. `p_value`: corrected."""

    conditions: tuple[FieldCondition, ...]
    counts: Association
    p_value: float
    also: tuple[FieldCondition, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the finding as it is kept."""
        return {
            "conditions": [one.as_json() for one in self.conditions],
            "also": [one.as_json() for one in self.also],
            "counts": [self.counts.hits, self.counts.failing, self.counts.other_hits, self.counts.others],
            "p_value": self.p_value,
        }


def finding_from(found: Mapping[str, Any]) -> Finding:
    """Return the finding that `as_json` gave."""
    return Finding(
        tuple(map(condition_from, found["conditions"])),
        Association(*found["counts"]),
        found["p_value"],
        tuple(map(condition_from, found["also"])),
    )


@dataclass(frozen=True)
class _Found:
    conditions: tuple[FieldCondition, ...]
    holds: int
    counts: Association
    p: float
    also: list[FieldCondition] = field(default_factory=list)


def find(candidates: Sequence[Candidate], sample: Sample, *, tested: int) -> list[Finding]:
    """Return what tells the failing messages from the others, best first; nothing where nothing does.

    `tested`: how many conditions were tried, the candidates among them; p values are corrected for all of these, and
    for all pairs of them. What a better finding explains is left out.
    """
    everything = sample.all
    singles = [
        _Found((one.condition,), one.holds, counts, counts.p)
        for one in candidates
        if (counts := sample.counts(one.holds, everything)).is_more and counts.hits >= sample.fewest
    ]
    singles.sort(key=_best_first)
    pairs = list(_pairs(singles[:MOST_IN_PAIRS], sample))
    # Each family has half of the chance to be wrong.
    named = [
        *_significant(singles, 2 * tested),
        *_significant(pairs, tested * (tested - 1)),
    ]
    named.sort(key=_best_first)
    return [Finding(one.conditions, one.counts, one.p, tuple(one.also)) for one in _distinct(named, sample, 2 * tested)]


def _best_first(found: _Found) -> tuple[Any, ...]:
    return -found.counts.g, len(found.conditions), found.conditions[0].plainness


def _significant(some: Sequence[_Found], tested: int) -> Iterator[_Found]:
    corrected = holm([one.p for one in some], max(1, tested))
    return (
        replace(one, p=p)
        for one, p in zip(some, corrected, strict=True)
        if p <= ALPHA and one.counts.lift >= MIN_LIFT and _difference(one.counts) >= MIN_DIFFERENCE
    )


def _difference(counts: Association) -> float:
    return counts.share - counts.share_of_others


def _pairs(singles: Iterable[_Found], sample: Sample) -> Iterator[_Found]:
    """Yield pairs that tell more than either part. `p`: the largest of the pair's own, and of each part's within the
    messages that fulfil the other."""
    everything, mask = sample.all, (1 << sample.failing) - 1
    for one, other in combinations(singles, 2):
        holds = one.holds & other.holds
        if (holds & mask).bit_count() < sample.fewest:
            continue
        counts = sample.counts(holds, everything)
        if counts.lift < MIN_LIFT * max(one.counts.lift, other.counts.lift):
            continue
        if counts.g <= max(one.counts.g, other.counts.g):
            continue
        within = [sample.counts(other.holds, one.holds), sample.counts(one.holds, other.holds)]
        if all(part.is_more for part in within):
            conditions = (*one.conditions, *other.conditions)
            yield _Found(conditions, holds, counts, max(counts.p, *(part.p for part in within)))


def _distinct(named: Iterable[_Found], sample: Sample, tested: int) -> list[_Found]:
    """Return the findings, best first, without those that a better one explains; what is the same goes with it."""
    kept: list[_Found] = []
    for one in named:
        same = next((better for better in kept if _is_same(one.holds, better.holds, sample)), None)
        if same is not None:
            new = (each for each in one.conditions if each not in (*same.conditions, *same.also))
            if len(one.conditions) == 1:
                same.also.extend(islice(new, MOST_ALSO - len(same.also)))
        elif len(kept) < MOST_FINDINGS and not any(_explains(better, one, sample, tested) for better in kept):
            kept.append(one)
    return kept


def _is_same(one: int, other: int, sample: Sample) -> bool:
    both, either = (sample.counts(some, sample.all) for some in (one & other, one | other))
    # A few messages among many others make no difference to anybody.
    few = sample.others * 0.002
    return both.hits >= _SAME * either.hits and (
        both.other_hits >= _SAME * either.other_hits or either.other_hits - both.other_hits <= few
    )


def _explains(better: _Found, one: _Found, sample: Sample, tested: int) -> bool:
    """Return whether, among messages that fulfil the better finding and among those that do not, the other one tells
    nothing: the G-test of both strata together, for two degrees of freedom."""
    strata = [sample.counts(one.holds, within) for within in (better.holds, sample.all & ~better.holds)]
    g = sum(counts.g for counts in strata if counts.is_more)
    if exp(-g / 2) * tested > ALPHA:
        return True
    # Pairs and wider conditions are apart from the better one only where they tell of failing messages by themselves.
    beyond = strata[1]
    return _difference(beyond) * beyond.failing < MIN_DIFFERENCE * sample.failing and _weight(strata[0]) < MIN_LIFT


def _weight(counts: Association) -> float:
    return counts.lift if counts.is_more else 0.0


def sentence(finding: Finding, *, others: str) -> str:
    """Return what a finding says. `others`: what the others are, as in "of those delivered".

    The conditions are in backquotes, as code.
    """
    what = " and ".join(_quoted(one) for one in finding.conditions)
    some = [_quoted(one) for one in finding.also[:_ALSO]]
    more = [f"{len(finding.also) - _ALSO} more"] if len(finding.also) > _ALSO else []
    also = f" (also {', '.join([*some, *more])})" if some else ""
    share, share_of_others = percent(finding.counts.share), percent(finding.counts.share_of_others)
    return f"{share} of these have {what}{also}, {others} {share_of_others}."


def _quoted(condition: FieldCondition) -> str:
    words, mark, rest = condition.text.partition(condition.field)
    return f"{words}`{mark}{rest}`"


def percent(share: float) -> str:
    """Return a share in words; only all are 100 %, and only none are 0 %.

    >>> percent(0.98), percent(0.031), percent(0.9996), percent(0.004), percent(0.00001), percent(1.0), percent(0.0)
    ('98 %', '3 %', '99.9 %', '0.4 %', 'less than 0.1 %', '100 %', 'none')
    """
    if share <= 0:
        return "none"
    if share >= 1:
        return "100 %"
    in_hundred = share * 100
    if in_hundred < 0.1:
        return "less than 0.1 %"
    if in_hundred < 1 or in_hundred >= 99:
        return f"{int(in_hundred * 10) / 10:g} %"
    return f"{in_hundred:.0f} %"
