"""Operations of every kind are cancelled at random moments: nothing begins after that, and what had not begun is as it
was before."""

import random

import pytest

from tests.whole_system.cancelled_operation import KINDS, cancelled_at
from tests.whole_system.installation import Installation

SEED = 26


@pytest.mark.conformance("R16")
@pytest.mark.parametrize("moments", [pytest.param(50, marks=pytest.mark.long), 4])
def test_after_cancelled_nothing_begins_and_what_had_not_begun_is_as_it_was(
    installation: Installation, moments: int
) -> None:
    wrong = []
    for number in range(moments):
        seed = f"{SEED} {moments} {number}"
        kind = list(KINDS)[number % len(KINDS)] if moments > len(KINDS) else random.Random(seed).choice(list(KINDS))
        told = cancelled_at(installation, f"cut{moments}-{number}", kind, random.Random(seed))
        wrong += [f"moment {number}: {one}" for one in told]
    assert wrong == []
