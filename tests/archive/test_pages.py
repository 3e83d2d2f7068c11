"""The pages of the archive, and an archived message on the page that shows any message."""

from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client
from pyspark.sql import SparkSession

from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_values
from tests.archive.fixtures import archive, erase_with, place  # noqa: F401  (a fixture)
from tests.archive.test_restoring import put_archived
from tests.fixtures.api import Caller
from tests.fixtures.pages import html_of, usable_of
from workers.spark.jobs.archive import SparkArchiveStore

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place")]


@pytest.fixture
def archived(spark: SparkSession) -> int:
    message_id = put_archived(spark)
    request_archive_run(principal=SYSTEM)
    archive(spark)
    return message_id


def test_an_archived_message_is_found_shown_restored_and_approved(
    archived: int, browser_of: Callable[[str], Client]
) -> None:
    assert "node-7" in html_of(browser_of("admin").get(f"/messages/{archived}/"))
    operator = browser_of("operator")
    found = html_of(operator.get("/triage/?key.customer=c-77"))
    assert f'href="/messages/{archived}/"' in found
    page = html_of(operator.get(f"/messages/{archived}/"))
    for shown in ("archived", "no such customer", "é secret-0", "c-77", "Restore from archive", "late"):
        assert shown in page, shown
    assert 'data-decision="approve"' not in page
    operator.post(f"/archive/messages/{archived}/restore/", {"reason": "it was wanted after all"})
    page = html_of(operator.get(f"/messages/{archived}/"))
    assert "it was wanted after all" in page
    assert 'data-decision="approve"' in page
    assert "Restore from archive" not in page
    assert f'href="/messages/{archived}/?list=' in html_of(operator.get("/triage/?key.customer=c-77"))


def test_a_viewer_is_offered_no_restoring(archived: int, browser_of: Callable[[str], Client]) -> None:
    assert "Restore from archive" not in usable_of(browser_of("viewer").get(f"/messages/{archived}/"))
    assert browser_of("outsider").get(f"/messages/{archived}/").status_code == 404


def test_the_page_shows_runs_holds_and_erasures(archived: int, browser_of: Callable[[str], Client]) -> None:
    admin = browser_of("admin")
    admin.post("/archive/holds/", {"q": "key.customer:c-77", "reason": "lawsuit 12"})
    admin.post("/archive/erasures/", {"q": "message:m-1", "reason": "letter of May", "count": "0"})
    page = html_of(admin.get("/archive/"))
    for shown in ("1 message", "succeeded", "key.customer:c-77", "lawsuit 12", "letter of May"):
        assert shown in " ".join(page.split()), shown
    viewer = html_of(browser_of("viewer").get("/archive/"))
    assert "lawsuit 12" not in viewer
    assert "Not for your account" in html_of(browser_of("outsider").get("/archive/"))


def test_the_api_tells_of_an_archived_message(archived: int, operator: Caller, viewer: Caller) -> None:
    shown = viewer.get(f"messages/{archived}/").json()
    assert (shown["archived"], shown["state"], shown["headers"]) == (True, "FAIL", {"n": "0"})
    assert operator.get(f"messages/{archived}/payload/").getvalue().decode() == "é secret-0"
    assert len(viewer.get(f"messages/{archived}/history/").json()["results"]) == 3
    assert viewer.get("archive/messages/?key.customer=c-77").json()["results"][0]["id"] == str(archived)
    assert viewer.get(f"messages/{archived}/schedule/").status_code == 404
    restored = operator.post(f"messages/{archived}/restore_from_archive/", {"reason": "r"})
    assert (restored.status_code, restored.json()["state"], restored.json()["reason"]) == (200, "NDLV", "from_archive")
    assert viewer.get(f"messages/{archived}/").json()["archived"] is False
    assert operator.post(f"messages/{archived}/restore_from_archive/", {"reason": "r"}).status_code == 409


def test_an_erased_message_is_gone(spark: SparkSession, admin: Caller, viewer: Caller) -> None:

    message_id = put_archived(spark)
    asked = admin.post("erasures/", {"filter": {"message_id": "m-0"}, "reason": "letter of May"})
    assert asked.status_code == 202
    erase_with(SparkArchiveStore(spark, settings.ARCHIVE))
    assert admin.get(f"erasures/{asked.json()['id']}/").json()["result"] == {
        "erased": 1,
        "left_alone": 0,
        "held_by": [],
    }
    answer = viewer.get(f"messages/{message_id}/")
    assert (answer.status_code, answer.json()["code"]) == (410, "erased")
    assert "letter of May" in answer.json()["detail"]
    assert fetch_values("SELECT count(*) FROM business_key") == [0]
