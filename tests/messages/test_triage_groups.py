"""Triage grouped by failure: what a filter leaves of each failure group, in any order, and merging ticked ones."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.merged_groups import merge
from poisonadmin.groups.queries import group_counts
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.store.models.attempt import FailureGroup
from tests.fixtures import decisions
from tests.fixtures.pages import dead_letter, html_of, make_user, waiting

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
LIMITED = principal("kim", Role.VIEWER, ["bills.#"])


def failed(error: str, address: str = "orders.eu") -> int:
    letter = {"exception_class": error, "exception_message": "gone", "stack": f"{error}\n\tat app.{error}(A.java:1)"}
    return dead_letter(address, dead_letter=letter).id


def group_of(error: str) -> int:
    return FailureGroup.objects.get(error_class=error).id


@pytest.fixture
def groups() -> dict[str, int]:
    """Return three groups by their class, with three, two and one messages, of which one Busy is given up."""
    given_up = [failed("Busy"), failed("Busy", "bills.eu"), failed("Busy"), failed("Slow"), failed("Slow", "bills.eu")][
        0
    ]
    failed("Rare")
    decisions.mark_fail([given_up], principal=SYSTEM, reason="r")
    return {error: group_of(error) for error in ("Busy", "Slow", "Rare")}


def listed(filter_: dict[str, list[str]], **more: object) -> list[tuple[str, int, int]]:
    found = list_groups(parse_filter(filter_), principal=more.pop("principal", SYSTEM), **more).results  # type: ignore[arg-type]
    return [(one.error_class, one.counts["NDLV"], one.messages) for one in found]


@pytest.mark.usefixtures("groups")
def test_a_group_counts_the_messages_that_match() -> None:
    everything = [("Busy", 2, 3), ("Slow", 2, 2), ("Rare", 1, 1)]
    assert listed({}, ordering="-messages") == everything
    assert listed({"state": ["NDLV"]}, ordering="-messages") == [("Slow", 2, 2), ("Busy", 2, 2), ("Rare", 1, 1)]
    assert listed({"address": ["bills.#"]}, ordering="-first_at") == [("Slow", 1, 1), ("Busy", 1, 1)]
    assert listed({}, ordering="-messages", principal=LIMITED) == [("Slow", 1, 1), ("Busy", 1, 1)]
    assert listed({"failed_after": ["2020-01-01T00:00:00Z"]}, ordering="-messages") == everything
    assert listed({"failure": ["slow"], "state": ["FAIL"]}) == []


@pytest.mark.usefixtures("groups")
def test_pages_follow_one_another_in_every_order() -> None:
    for ordering in ("-messages", "-undecided", "-trend", "-failures", "-last_at", "-first_at"):
        whole = list_groups(parse_filter({}), principal=SYSTEM, ordering=ordering).results
        first = list_groups(parse_filter({}), principal=SYSTEM, ordering=ordering, limit=2)
        rest = list_groups(parse_filter({}), principal=SYSTEM, ordering=ordering, limit=2, cursor=first.next)
        assert [one.id for one in (*first.results, *rest.results)] == [one.id for one in whole], ordering
        assert first.total().n == 3


@pytest.mark.usefixtures("groups")
def test_what_needs_a_scan_is_read_to_a_bound_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = parse_filter({"failed_after": ["2020-01-01T00:00:00Z"]})
    assert list_groups(scanned, principal=SYSTEM).cut is None
    monkeypatch.setattr(group_counts, "MESSAGES_READ", 2)
    assert list_groups(scanned, principal=SYSTEM).cut == 2
    assert list_groups(parse_filter({"state": ["NDLV"]}), principal=SYSTEM).cut is None


def test_messages_are_found_by_what_is_said_of_their_group(groups: dict[str, int]) -> None:
    make_user("anna", Role.OPERATOR)
    merge(groups["Busy"], [groups["Rare"]], principal=SYSTEM, reason="r")
    until = datetime.now(UTC) + timedelta(days=1)
    annotate(groups["Busy"], {"owner": "anna", "tags": ["known", "db"]}, principal=SYSTEM)
    annotate(groups["Slow"], {"snoozed_until": until}, principal=SYSTEM)
    assert User.objects.filter(username="anna").exists()
    for filter_, count in (
        ({"group_owner": ["anna"]}, 4),
        ({"q": ["!group_owner:anna"]}, 2),
        ({"group_tag": ["db", "other"]}, 4),
        ({"snoozed": ["true"]}, 2),
        ({"snoozed": ["false"]}, 4),
        ({"q": ["!snoozed:false"]}, 2),
        ({"failure": ["rare"]}, 4),
        ({"failure": ["gone"], "snoozed": ["true"]}, 2),
        ({"group_tag": ["db"], "failed_after": ["2020-01-01T00:00:00Z"]}, 4),
    ):
        found = list_messages(parse_filter(filter_), principal=SYSTEM)
        assert (len(found.results), found.total().n) == (count, count), filter_
        assert sum(one[2] for one in listed(filter_)) == count, filter_


def test_a_limited_account_does_not_search_the_sample_of_others(groups: dict[str, int]) -> None:
    assert listed({"failure": ["gone"]}) != []
    assert listed({"failure": ["gone"]}, principal=LIMITED) == []
    assert [one[0] for one in listed({"failure": ["slow"]}, principal=LIMITED)] == ["Slow"]
    assert len(groups) == 3


def test_a_group_without_a_message_is_listed_until_the_filter_asks_for_messages(groups: dict[str, int]) -> None:
    FailureGroup.objects.create(fingerprint="f" * 16, version=1, title="Gone", error_class="Gone")
    assert ("Gone", 0, 0) in listed({"snoozed": ["false"]})
    assert len(listed({"state": ["NDLV"]}, ordering="-undecided")) == len(groups)


def test_the_page_shows_the_groups_and_keeps_their_filter(operator_browser: Client, groups: dict[str, int]) -> None:
    annotate(groups["Slow"], {"tags": ["known"]}, principal=SYSTEM)
    waiting("orders.eu")
    text = html_of(operator_browser.get("/triage/?address=orders.%23&group_by=failure"))
    assert "1 message that matches the filter has no failure, and is in no group" in " ".join(text.split())
    text = html_of(operator_browser.get("/triage/?address=orders.%23&snoozed=false&group_by=failure"))
    assert "in no group" not in text
    assert text.count('name="value"') == 3
    assert f'href="?address=orders.%23&amp;snoozed=false&amp;group={groups["Busy"]}&amp;state=NDLV">1</a>' in text
    assert 'aria-sort="descending"><a' in text
    assert '<span class="one-line wild" title="orders.eu">orders.eu</span>' in text
    assert '<span class="tag tag-note">known</span>' in text
    for sort in ("undecided", "size", "trend", "last", "first"):
        assert f"&amp;sort={sort}" in text
    opened = re.search(r'href="(/triage/[^"]*)"[^>]*>(?:(?!</a>).)*<span>Triage</span>', text, re.DOTALL)
    assert opened is not None
    page = html_of(operator_browser.get(unescape(opened[1])))
    assert re.search(r'aria-current="true"\s*>Groups</a>', page)
    assert "Filters in force" not in page
    assert operator_browser.get("/triage/?group_by=failure&sort=up").status_code == 400


def test_old_addresses_of_pages_lead_to_the_same_list(operator_browser: Client) -> None:
    for old, new in (
        ("/messages/?state=NDLV", "/triage/?state=NDLV"),
        ("/failures/?error=x", "/triage/?error=x&group_by=failures"),
        ("/groups/", "/triage/?snoozed=false&group_by=failure"),
        (
            "/groups/?error=x&owner=anna&tag=a&tag=b&snoozed=true",
            "/triage/?snoozed=true&failure=x&group_owner=anna&group_tag=a&group_tag=b&group_by=failure",
        ),
        (
            "/blacklist/?address=a.%23+b",
            "/triage/?state=NDLV&reason=blacklisted&address=a.%23&address=b&group_by=crashes",
        ),
        ("/blacklist/3/bystanders/1/?state=DLVD", "/messages/3/bystanders/1/?state=DLVD"),
    ):
        assert operator_browser.get(old).headers["Location"] == new


def test_ticked_groups_are_merged(operator_browser: Client, groups: dict[str, int]) -> None:
    ticked = [str(groups["Busy"]), str(groups["Slow"])]
    asked = html_of(operator_browser.post("/groups/merge/", {"value": ticked}, headers=HTMX))
    assert "<html" not in asked
    assert re.findall(r'name="into" value="(\d+)"', asked) == ticked
    assert "Tick at least two" in html_of(operator_browser.post("/groups/merge/", {"value": ticked[:1]}))
    sent = {"into": ticked[1], "group": ticked, "reason": "the same cause"}
    done = operator_browser.post("/groups/merge/now/", sent)
    assert done.headers["Location"] == reverse("groups-one", args=[ticked[1]])
    assert listed({}, ordering="-messages") == [("Slow", 4, 5), ("Rare", 1, 1)]
    nothing = operator_browser.post("/groups/merge/now/", sent | {"reason": ""}, follow=True)
    assert "Say why" in html_of(nothing)
