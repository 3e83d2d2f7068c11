"""Pages of restart jobs: the form, the preview, running one once, and the list of runs with their ledgers."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.restart_jobs.commands import run_once
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.operation import Operation, Selection
from poisonadmin.store.models.restart_job import RestartJob
from tests.fixtures.delivery import states
from tests.fixtures.pages import html_of, usable_of
from tests.restart_jobs.saved import save, undecided

pytestmark = pytest.mark.django_db

NEW = "/restart-jobs/new/"
TYPED = {
    "name": "nightly",
    "action": "fail",
    "reason": "nobody asks for them after a week",
    "schedule": "0 4 * * *",
    "filter": "address=orders.#",
    "max_restarts": "2",
    "limit": "500",
    "order": "newest",
}


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    return browser_of("admin")


def test_a_restart_job_is_saved_as_typed(admin: Client) -> None:
    assert admin.post(NEW, TYPED).status_code == 302
    row = RestartJob.objects.get()
    assert (row.schedule, row.filter, row.max_restarts) == ("0 4 * * *", {"address": ["orders.#"]}, 2)
    assert (row.limit, row.order, row.canary) == (500, "newest", False)
    assert (row.action, row.reason, row.is_enabled) == ("fail", "nobody asks for them after a week", False)
    assert (row.owner, row.owner_account[:5]) == ("admin", "user ")


def test_the_form_is_filled_with_what_is_stored_and_with_the_filter_of_a_list(admin: Client) -> None:
    job = save(action="return", rate_per_second=2.5, include_blacklisted=True, limit=500, order="random", canary=True)
    page = admin.get(f"/restart-jobs/{job.id}/edit/").content.decode()
    assert '<option value="return" selected>' in page
    assert 'value="2.5"' in page
    assert '<option value="random" selected>' in page
    assert 'value="500"' in page
    shown = html_of(admin.get(f"/restart-jobs/{job.id}/"))
    assert '<dd>500 messages<span class="sub">at random</span></dd>' in shown
    assert "<dt>Canary</dt><dd>1, then 10, then 100 first</dd>" in shown
    assert "address=orders.eu" in admin.get(f"{NEW}?address=orders.eu&state=NDLV").content.decode()


def test_all_mistakes_of_a_restart_job_are_shown_at_once(admin: Client) -> None:
    wrong = {"name": "", "reason": "", "schedule": "daily", "filter": "addres=orders", "max_restarts": "0"}
    wrong |= {"limit": "0", "order": "largest", "canary": "on"}
    answer = admin.post(NEW, TYPED | wrong)
    text = answer.content.decode()
    assert answer.status_code == 422
    for field in wrong:
        assert f'id="{field}_error"' in text, field
    assert "This is required." in text
    assert "schedule:" not in text
    assert not RestartJob.objects.exists()


def test_a_taken_name_is_an_error_of_the_name_and_replaces_nothing(admin: Client) -> None:
    admin.post(NEW, TYPED)
    answer = admin.post(NEW, TYPED | {"schedule": "0 5 * * *"})
    assert answer.status_code == 409
    assert 'id="name_error"' in answer.content.decode()
    assert RestartJob.objects.get().schedule == "0 4 * * *"


def test_a_form_of_no_or_an_older_version_changes_nothing(admin: Client) -> None:
    admin.post(NEW, TYPED)
    path = f"/restart-jobs/{RestartJob.objects.get().id}/edit/"
    assert admin.post(path, TYPED | {"version": "1", "schedule": "0 5 * * *"}).status_code == 302
    for version in ("", "1"):
        answer = admin.post(path, TYPED | {"version": version})
        assert answer.status_code == 412
        assert 'name="version" value="2"' in answer.content.decode()
    assert RestartJob.objects.get().schedule == "0 5 * * *"


def test_who_can_never_save_one_is_not_shown_the_form(admin: Client) -> None:
    Access.objects.update(address_patterns=["orders.#"])
    assert admin.get(NEW).status_code == 403


@pytest.mark.django_db(transaction=True)  # the preview is to be later than the job
def test_a_job_is_previewed_and_run_once_on_what_was_seen(admin: Client, destination: str) -> None:
    [sound, nowhere] = undecided() + undecided(address="elsewhere.x")
    job = save(schedule=None, is_enabled=False)
    answer = admin.post(f"/restart-jobs/{job.id}/preview/")
    page = html_of(admin.get(answer["Location"]))
    assert "Approve 2 messages, selected" in page
    selection = Selection.objects.get().id
    assert f'hx-get="/operations/selections/{selection}/?action=approve"' in page
    assert 'hx-select="[data-preview]"' in page
    preview = html_of(admin.get(f"/operations/selections/{selection}/?action=approve"))
    assert preview.count(" data-preview") == 2
    assert "1 of 2 will be approved" in preview
    begun = admin.post(f"/restart-jobs/{job.id}/run/", {"selection": str(selection)})
    operation = Operation.objects.get()
    assert begun["Location"] == f"/operations/{operation.id}/"
    assert states([sound, nowhere]) == ["TBDL", "NDLV"]
    assert f'<a href="/restart-jobs/{job.id}/">restart job nightly</a>' in html_of(admin.get(begun["Location"]))
    shown = html_of(admin.get(f"/restart-jobs/{job.id}/"))
    assert f'<a href="/operations/{operation.id}/members/unanswered/">1 not answered yet</a>' in shown
    assert f'<a href="/operations/{operation.id}/members/skipped/">1 left alone</a>' in shown
    again = admin.post(f"/restart-jobs/{job.id}/run/", {"selection": str(selection)}, follow=True)
    assert "Preview it again." in html_of(again)


def test_a_run_that_began_nothing_says_why(admin: Client, destination: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    job = save()
    assert "no message to decide on" in html_of(admin.post(f"/restart-jobs/{job.id}/run/", follow=True))
    undecided()
    run_once(job.id, principal=SYSTEM)
    answer = html_of(admin.post(f"/restart-jobs/{job.id}/run/", follow=True))
    assert "of an earlier run still has messages to begin with." in answer
    assert "Found nothing" in answer
    assert "Skipped" in html_of(admin.get("/restart-jobs/"))


def test_who_may_not_configure_sees_the_runs_and_no_button_to_use(browser_of: Callable[[str], Client]) -> None:
    job = save()
    page = usable_of(browser_of("viewer").get(f"/restart-jobs/{job.id}/"))
    assert "It has not run yet." in page
    assert "Run once" not in page
