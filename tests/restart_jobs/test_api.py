"""Restart jobs through the API: preview, run once, and the list of runs."""

import pytest

from tests.fixtures.api import Caller
from tests.restart_jobs.saved import undecided

JOB = {"name": "mended", "action": "approve", "reason": "the consumer is mended", "filter": {"address": "orders.#"}}
LIMITS = {"limit": 2, "order": "newest", "canary": False}


@pytest.mark.django_db(transaction=True)  # the preview is to be later than the job
def test_a_job_is_previewed_and_run_on_what_the_preview_counted(admin: Caller, destination: str) -> None:
    undecided(2)
    made = admin.post("restart-jobs/", JOB | LIMITS).json()
    assert {name: made[name] for name in LIMITS} == LIMITS
    assert (made["is_enabled"], made["schedule"], made["next_at"]) == (False, None, None)
    place = f"restart-jobs/{made['id']}/"
    preview = admin.post(f"{place}preview/").json()
    assert (preview["action"], preview["count"], preview["accepted"], preview["refused"]) == ("approve", 2, 2, [])
    run = admin.post(f"{place}run/", {"selection": preview["selection_id"]}).json()
    assert (run["outcome"], run["count"], run["ledger"]["unanswered"]) == ("begun", 2, 2)
    assert admin.get(f"operations/{run['operation_id']}/").json()["restart_job_id"] == made["id"]
    assert admin.get(f"{place}runs/").json()["results"] == [run]
    again = admin.post(f"{place}run/")
    assert (again.status_code, again.json()["outcome"], again.json()["operation_id"]) == (202, "nothing", None)
    stale = admin.post(f"{place}run/", {"selection": preview["selection_id"]})
    assert (stale.status_code, stale.json()["code"]) == (400, "invalid_restart_job")
    assert admin.get(place).json()["last_outcome"] == "nothing"
