"""The page of groups that look alike, and the same in the API."""

from collections.abc import Callable

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.groups.alike.commands import request_search
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.failure_group import GroupProposal
from poisonadmin.store.models.run import LongRun
from tests.alike_groups.proposals import search_due, searched
from tests.alike_groups.test_searching import take_in_alike
from tests.fixtures.api import Caller
from tests.fixtures.pages import html_of, usable_of

pytestmark = pytest.mark.django_db
Browser = Callable[[str], Client]
PAGE = "/groups/alike/"


def page(browser: Client, query: str = "") -> str:
    return html_of(browser.get(PAGE + query))


def test_it_is_asked_for_by_a_button_and_shows_how_it_stands(browser_of: Browser) -> None:
    operator = browser_of("operator")
    take_in_alike()
    assert "Nobody has searched yet" in page(operator)
    assert "Groups that look alike" in html_of(operator.get("/triage/?group_by=failure"))
    assert operator.post(f"{PAGE}search/")["Location"] == PAGE
    assert "Waiting for a worker" in page(operator)
    live = operator.get(PAGE, headers={"HX-Request": "true"})
    assert "<html" not in html_of(live)
    search_due()
    assert operator.get(PAGE, headers={"HX-Request": "true"})["HX-Refresh"] == "true"
    assert "3 fingerprints compared" in page(operator)
    assert browser_of("viewer").post(f"{PAGE}search/").status_code == 403


def test_what_differs_is_marked_side_by_side(browser_of: Browser) -> None:
    first, second = take_in_alike()
    searched()
    GroupProposal.objects.update(
        group_failure={"kind": "com.shop.<b>Rejected", "message": "order <n> is <i>open", "frames": ["a.B.<u>c"]}
    )
    text = page(browser_of("viewer"))
    assert f"#{first}" in text
    assert f"#{second}" in text
    assert "≠ Class" in text
    assert "≠ Frame 1" in text
    assert "<mark>&lt;i&gt;open</mark>" in text
    for tag in ("<b>", "<i>open", "<u>"):
        assert tag not in text.partition("<main")[2]
    usable = usable_of(browser_of("viewer").get(PAGE))
    assert ">Merge<" not in usable
    assert "Dismiss<" not in usable


def test_one_click_merges(browser_of: Browser) -> None:
    operator = browser_of("operator")
    first, second = take_in_alike()
    searched()
    proposal = GroupProposal.objects.get().id
    assert f'Merge<span class="visually-hidden"> #{second} into #{first}</span>' in page(operator)
    answer = operator.post(f"{PAGE}{proposal}/merge/", {"back": f"{PAGE}?cursor=x"}, follow=False)
    assert answer["Location"] == f"{PAGE}?cursor=x"
    assert FailureGroup.objects.get(id=second).merged_into_id == first
    assert f"Group {second} is merged into group {first}" in page(operator)
    assert "No groups look alike" in page(operator)
    assert operator.post(f"{PAGE}{proposal}/merge/").status_code == 404


def test_a_search_is_cancelled(browser_of: Browser) -> None:
    operator = browser_of("operator")
    made = request_search(principal=SYSTEM)
    assert "Cancel" in page(operator).partition("<main")[2]
    assert "Cancel" not in usable_of(browser_of("viewer").get(PAGE)).partition("<main")[2]
    operator.post(f"{PAGE}searches/{made}/cancel/")
    assert LongRun.objects.get().state == "cancelled"
    assert "The search is cancelled" in page(operator)
    operator.post(f"{PAGE}searches/{made}/cancel/")
    assert "has ended" in page(operator)


def test_a_dismissed_one_is_among_the_dismissed_and_comes_back(browser_of: Browser) -> None:
    operator = browser_of("operator")
    take_in_alike()
    searched()
    proposal = GroupProposal.objects.get().id
    operator.post(f"{PAGE}{proposal}/dismiss/")
    assert "No groups look alike" in page(operator)
    assert "dismissed by operator" in page(operator, "?dismissed=1")
    operator.post(f"{PAGE}{proposal}/dismiss/")
    assert "is dismissed already" in page(operator)
    operator.post(f"{PAGE}{proposal}/again/")
    assert "Nothing is dismissed" in page(operator, "?dismissed=1")
    assert "% alike" in page(operator)


def test_why_a_search_failed_is_shown(browser_of: Browser) -> None:
    made = request_search(principal=SYSTEM)
    LongRun.objects.filter(id=made).update(state="failed", error="<b>no", ended_at="2026-01-01T00:00:00Z")
    assert "The search failed: &lt;b&gt;no" in page(browser_of("admin"))


def test_the_api_has_the_same(operator: Caller) -> None:
    first, second = take_in_alike()
    asked = operator.post("groups/alike/")
    assert asked.status_code == 202
    search_due()
    search = operator.get(asked["Location"].partition("/api/v1/")[2]).json()
    assert (search["state"], search["done"], search["result"]) == (
        "succeeded", 3, {"groups": 3, "left_out": 0, "proposals": 1}
    )  # fmt: skip
    (found,) = operator.get("groups/alike/").json()["results"]
    assert (found["into"]["id"], found["group"]["id"], found["state"]) == (str(first), str(second), "open")
    assert found["group"]["frames"][0] == "com.shop.Guard.check"
    path = f"groups/alike/{found['id']}/"
    assert operator.post(f"{path}dismiss/").json()["dismissed_by"] == "operator via test"
    assert operator.get("groups/alike/").json()["results"] == []
    assert len(operator.get("groups/alike/?state=dismissed").json()["results"]) == 1
    assert operator.post(f"{path}dismiss/").json()["code"] == "proposal_changed"
    assert operator.post(f"{path}merge/", {"reason": "the same"}).json()["code"] == "proposal_changed"
    assert operator.post(f"{path}propose_again/").json()["state"] == "open"
    merged = operator.post(f"{path}merge/", {"reason": "the same"}).json()
    assert [one["id"] for one in merged["members"]] == [str(first), str(second)]
    assert operator.get(path).status_code == 404
    assert operator.post(f"groups/{first}/split/", {"groups": [str(second)], "reason": "no"}).status_code == 200
    assert operator.get(path).json()["id"] == found["id"]


def test_the_api_cancels(operator: Caller) -> None:
    search = operator.post("groups/alike/").json()["id"]
    assert operator.post(f"groups/alike/searches/{search}/cancel/").json()["state"] == "cancelled"
    assert operator.post(f"groups/alike/searches/{search}/cancel/").json()["code"] == "run_ended"


def test_a_list_goes_page_by_page(operator: Caller) -> None:
    first, second = take_in_alike()
    searched()
    row = GroupProposal.objects.get()
    more = FailureGroup.objects.create(fingerprint="b" * 16, version=1, title="t", error_class="c")
    row.pk, row.place, row.group_id, row.digest = None, 1, more.id, "other"
    row.save(force_insert=True)
    begun = operator.get("groups/alike/?limit=1").json()
    assert (len(begun["results"]), begun["count"]) == (1, 2)
    rest = operator.get(begun["next"].partition("/api/v1/")[2]).json()
    assert [one["group"]["id"] for one in (*begun["results"], *rest["results"])] == [str(second), str(more.id)]
    assert first
