"""`kill -9` at every line that the guard runs: a failure is counted once, never twice, never not at all."""

import json
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings

from tests.poisonguard.conftest import Service

SOURCE = "killed"


def killed_at(service: Service, scenario: str, stride: int) -> list[dict[str, Any]]:
    """Run a scenario, killed at each line, or each so many, and the next start after it; return what each came to."""
    asked = {"guard": service.options(SOURCE, crash_limit=100), "scenario": scenario, "stride": stride}
    done = subprocess.run(
        [sys.executable, "-m", "tests.poisonguard.stepping", json.dumps(asked)],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for one in found:
        entry = service.entries(f"{SOURCE}.{one['step']}").get("1", {"failures": 0, "crashes": 0})
        one["counted"] = entry["failures"] + entry["crashes"]
    return found


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.long), 4])
def test_a_consumer_killed_at_any_line_around_a_failing_handler_is_counted_at_most_once(
    service: Service, stride: int
) -> None:
    found = killed_at(service, "fail", stride)
    assert all(one["recovered"] and not one["left"] for one in found)
    # Before the journal is written nothing is known, and nothing has been handled; from then on it counts.
    counts = [one["counted"] for one in found]
    begun = counts.index(1)
    assert counts == [0] * begun + [1] * (len(counts) - begun)
    assert begun < len(counts) / 2


# The threads take turns differently each time, and so do the lines.
@pytest.mark.parametrize("stride", [pytest.param(3, marks=pytest.mark.long), 17])
def test_a_guard_killed_while_it_takes_over_loses_nothing_and_counts_nothing_twice(
    service: Service, stride: int
) -> None:
    found = killed_at(service, "recover", stride)
    assert len(found) > 140 // stride
    assert [one["step"] for one in found if one["counted"] != 1 or not one["recovered"] or one["left"]] == []
