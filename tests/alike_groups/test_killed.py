"""A worker that is killed during a search leaves nothing half done: the next one proposes the same."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.groups.alike.commands import request_search
from poisonadmin.store.models.failure_group import GroupProposal
from poisonadmin.store.models.run import LongRun
from tests.alike_groups.planted import plant
from tests.alike_groups.proposals import search_due, take_in
from workers.spark.jobs.alike import find_alike

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]
PROJECT = Path(__file__).resolve().parents[2]


def proposed() -> list[Any]:
    return list(GroupProposal.objects.order_by("digest").values_list("digest", "similarity", "text", "state"))


@pytest.mark.parametrize(
    "moment",
    ["reading one failure of each group", "looking for groups that may be alike", "propose", "finish"],
    ids=["reading", "comparing", "proposing", "storing"],
)
def test_killed_at_any_moment_the_next_worker_proposes_the_same(
    moment: str, spark: SparkSession, test_database_url: str
) -> None:
    take_in(plant(60, 20, seed=9).failures)
    request_search(principal=SYSTEM)
    search_due(partial(find_alike, spark))
    before = proposed()
    assert len(before) >= 10
    made = request_search(principal=SYSTEM)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.alike_groups.in_process", moment],
        cwd=PROJECT,
        env=os.environ | {"DATABASE_URL": test_database_url, "DJANGO_SETTINGS_MODULE": "poisonadmin.settings"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as worker:
        assert worker.stdout is not None
        said = next((line for line in worker.stdout if line.strip() == moment), None)
        # The worker, its JVM and its Python tasks, as when the machine loses them all.
        os.killpg(worker.pid, signal.SIGKILL)
        assert said is not None
    row = LongRun.objects.get(id=made)
    assert (row.state, row.tries, row.ended_at) == ("running", 1, None)
    assert proposed() == before
    search_due(partial(find_alike, spark))
    row.refresh_from_db()
    assert (row.state, row.tries, row.error) == ("succeeded", 2, None)
    assert proposed() == before
    assert list(LongRun.objects.values_list("state", flat=True)) == ["succeeded", "succeeded"]
