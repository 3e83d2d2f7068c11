"""Findings in words."""

from poisonadmin.comparisons.domain.conditions import FieldCondition
from poisonadmin.comparisons.domain.findings import Finding

# Of what goes with a finding, so much is said in a sentence.
_ALSO = 3


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
