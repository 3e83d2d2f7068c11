"""The form of a restart job: mistakes at their fields, and nobody overwrites another's change."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.store.models.access import Access
from poisonadmin.store.models.rule import RestartJob

pytestmark = pytest.mark.django_db

NEW = "/restart-jobs/new/"
TYPED = {"name": "nightly", "schedule": "0 4 * * *", "filter": "address=orders.#", "max_restarts": "2"}


@pytest.fixture
def admin(browser_of: Callable[[str], Client]) -> Client:
    return browser_of("admin")


def test_a_restart_job_is_saved_as_typed(admin: Client) -> None:
    assert admin.post(NEW, TYPED).status_code == 302
    row = RestartJob.objects.get()
    assert (row.schedule, row.filter, row.max_restarts) == ("0 4 * * *", {"address": ["orders.#"]}, 2)


def test_all_mistakes_of_a_restart_job_are_shown_at_once(admin: Client) -> None:
    wrong = {"name": "", "schedule": "daily", "filter": "addres=orders", "max_restarts": "0"}
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
    path = f"/restart-jobs/{RestartJob.objects.get().id}/"
    assert admin.post(path, TYPED | {"version": "1", "schedule": "0 5 * * *"}).status_code == 302
    for version in ("", "1"):
        answer = admin.post(path, TYPED | {"version": version})
        assert answer.status_code == 412
        assert 'name="version" value="2"' in answer.content.decode()
    assert RestartJob.objects.get().schedule == "0 5 * * *"


def test_who_can_never_save_one_is_not_shown_the_form(admin: Client) -> None:
    Access.objects.update(address_patterns=["orders.#"])
    assert admin.get(NEW).status_code == 403
