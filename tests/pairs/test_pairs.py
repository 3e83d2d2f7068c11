"""Two features meet on one operation: thirty pairs in each run, all of them in `make test-long`.

A failure names its pair: `pytest tests/pairs -k "cancel and canary"` plays it again.
"""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from tests.pairs.features import FEATURES, plan_of
from tests.pairs.scene import Scene

PAIRS = list(itertools.combinations(sorted(FEATURES), 2))
DRAWN = 30
SEED = 20261126


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, test_database_url: str) -> None:
    """Have a handler to import, and a place for the archive, which this process writes."""
    (tmp_path / "shop.py").write_text("def handle(message): ...\n")
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", test_database_url)
    settings.ARCHIVE = str(tmp_path / "archive")


def _cases() -> list[object]:
    """Return the pairs; those that are not drawn are long."""
    drawn = set(random.Random(SEED).sample(PAIRS, DRAWN))
    return [
        pytest.param(*pair, id=" and ".join(pair), marks=() if pair in drawn else pytest.mark.long) for pair in PAIRS
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("one", "other"), _cases())
def test_a_pair_keeps_what_each_promises(one: str, other: str) -> None:
    Scene(plan_of(one, other)).play()
