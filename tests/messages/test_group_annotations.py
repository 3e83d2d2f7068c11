"""What people say of a failure group: owner, note, ticket, tags, snooze; and how often it failed when."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.core.domain.access import SYSTEM, Permission, Role, principal
from poisonadmin.core.domain.errors import PreconditionFailed
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.merged_groups import merge, split
from poisonadmin.groups.domain.annotations import InvalidAnnotation, checked_ticket_url
from poisonadmin.groups.queries.groups import get_group, list_groups
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.failure_group import Annotation, GroupHour, GroupVersion
from poisonadmin.system.commands.accounts import create_token
from poisonadmin.system.commands.housekeeping import clean_up
from tests.fixtures.api import Caller, make_user, take_dead
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue, make_destination
from tests.fixtures.pages import html_of, log_in
from tests.messages.overlap import together

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
TICKET = "https://tickets.example.org/OPS-7?view=1#c2"


@pytest.fixture
def group(db: None) -> int:
    """Return a group with one message."""
    take_dead()
    return FailureGroup.objects.get().id


def said(group_id: int) -> tuple[object, ...]:
    found = get_group(group_id, principal=SYSTEM)
    return found.owner, found.note, found.ticket_url, found.tags, found.snoozed_until


def tomorrow() -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


def test_a_patch_changes_what_it_names_and_nothing_else(group: int, operator: Caller) -> None:
    until = tomorrow()
    body = {
        "owner": "operator",
        "note": " Since the release.\nSee the ticket. ",
        "ticket_url": TICKET,
        "tags": ["Payments", "eu", "payments"],
        "snoozed_until": until.isoformat(),
    }
    answered = operator.ask("PATCH", f"groups/{group}/", body)
    assert answered.status_code == 200
    assert said(group) == ("operator", "Since the release.\nSee the ticket.", TICKET, ["eu", "payments"], until)
    operator.ask("PATCH", f"groups/{group}/", {"owner": None, "tags": []})
    assert said(group) == (None, "Since the release.\nSee the ticket.", TICKET, [], until)
    rows = Audit.objects.filter(object_type="group", object_id=str(group)).order_by("id")
    assert [(row.action, sorted(row.details)) for row in rows] == [
        ("group.annotated", sorted(body)),
        ("group.annotated", ["owner", "tags"]),
    ]


def test_a_stale_patch_is_refused(group: int, operator: Caller) -> None:
    etag = operator.get(f"groups/{group}/")["ETag"]
    changed = operator.ask("PATCH", f"groups/{group}/", {"note": "first"}, If_Match=etag)
    assert changed["ETag"] != etag
    stale = operator.ask("PATCH", f"groups/{group}/", {"note": "second"}, If_Match=etag)
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert said(group)[1] == "first"
    assert operator.ask("PATCH", f"groups/{group}/", {"note": "third"}, If_Match=changed["ETag"]).status_code == 200


def test_what_differs_in_nothing_is_no_change(group: int, operator: Caller) -> None:
    for _ in range(2):
        etag = operator.ask("PATCH", f"groups/{group}/", {"note": "known", "tags": ["eu"]})["ETag"]
    assert etag == '"1"'
    assert Audit.objects.filter(action="group.annotated").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_to_the_same_revision_one_is_refused() -> None:
    take_dead()
    group = FailureGroup.objects.get().id
    outcomes = together(
        *(
            lambda note=note: annotate(group, {"note": note}, principal=SYSTEM, expected_revision=0)  # type: ignore[misc]
            for note in ("one", "other")
        )
    )
    assert sorted(type(outcome) for outcome in outcomes if outcome) == [PreconditionFailed]
    assert Annotation.objects.get().revision == 1


@pytest.mark.parametrize(
    "body",
    [
        {"ticket_url": "javascript:alert(1)"},
        {"ticket_url": "https://user:secret@tickets.example.org/1"},
        {"ticket_url": "https:///nowhere"},
        {"ticket_url": "https://[::1"},
        {"ticket_url": "/relative"},
        {"ticket_url": 'https://x.example.org/"><script>'},
        {"owner": "nobody-of-that-name"},
        {"tags": ["two words"]},
        {"tags": ["x" * 31]},
        {"tags": [""]},
        {"tags": [str(n) for n in range(11)]},
        {"note": "x" * 4001},
        {"snoozed_until": "2020-01-01T00:00:00Z"},
        {"snoozed_until": "2099-01-01T00:00:00Z"},
        {"snoozed_until": "tomorrow"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_what_may_not_be_said_is_refused_and_nothing_changes(
    body: dict[str, object], group: int, operator: Caller
) -> None:
    answered = operator.ask("PATCH", f"groups/{group}/", {"note": "new"} | body)
    assert answered.status_code == 400
    assert said(group) == (None, "", None, [], None)


@given(st.text(max_size=60))
def test_a_ticket_is_a_plain_link_or_refused(text: str) -> None:
    try:
        found = checked_ticket_url(text)
    except InvalidAnnotation:
        return
    assert found is None or (found == text and found.startswith(("http://", "https://")))


def test_a_snoozed_group_is_listed_on_demand_and_comes_back_by_itself(group: int, operator: Caller) -> None:
    operator.ask("PATCH", f"groups/{group}/", {"snoozed_until": tomorrow().isoformat()})
    assert operator.get("groups/").json()["results"] == []
    assert [row["id"] for row in operator.get("groups/?snoozed=true").json()["results"]] == [str(group)]
    undecided = parse_filter({"state": ["NDLV"], "snoozed": ["false"]})
    assert list_groups(undecided, principal=SYSTEM, ordering="-undecided").results == []
    Annotation.objects.update(snoozed_until=datetime.now(UTC) - timedelta(minutes=1))
    assert [row["snoozed_until"] for row in operator.get("groups/").json()["results"]] == [None]
    assert operator.get("groups/?snoozed=true").json()["results"] == []
    found = list_groups(undecided, principal=SYSTEM, ordering="-undecided").results
    assert [top.id for top in found] == [group]


def test_groups_are_listed_by_owner_and_by_tag(group: int, operator: Caller) -> None:
    take_dead(exception_class="KeyError")
    operator.ask("PATCH", f"groups/{group}/", {"owner": "operator", "tags": ["eu", "payments"]})
    for query, is_found in {
        "owner=operator": True,
        "owner=somebody": False,
        "tag=eu": True,
        "tag=us": False,
        "tag=us&tag=payments": True,
        "tag=eu&owner=somebody": False,
    }.items():
        found = [row["id"] for row in operator.get(f"groups/?{query}").json()["results"]]
        assert found == ([str(group)] if is_found else []), query


def test_a_group_is_annotated_by_who_sees_a_message_of_it(group: int) -> None:
    take_dead("bills.eu")
    annotate(group, {"note": "mine too"}, principal=principal("kim", Role.OPERATOR, ["bills.#"]))
    assert said(group)[1] == "mine too"


def test_an_owner_who_is_removed_owns_nothing(group: int, operator: Caller, django_user_model: type) -> None:
    annotate(group, {"owner": "operator"}, principal=SYSTEM)
    django_user_model.objects.get(username="operator").delete()  # type: ignore[attr-defined]
    assert said(group)[0] is None


def test_failures_are_counted_by_hour_and_by_day_and_by_address(db: None) -> None:
    now = datetime.now(UTC)
    for age, address in (
        (0, "orders.eu"),
        (0, "bills.eu"),
        (3, "orders.eu"),
        (72, "orders.eu"),
        (24 * 40, "orders.eu"),
    ):
        take_dead(address, failed_at=(now - timedelta(hours=age)).isoformat())
    [row] = list_groups(principal=SYSTEM).results
    assert (row.failures, sum(row.trend), row.trend[-1], row.trend[-4]) == (5, 3, 2, 1)
    days = get_group(row.id, principal=SYSTEM).days
    assert (sum(days), days[-4], len(days)) == (4, 1, 28)
    bills = principal("kim", Role.VIEWER, ["bills.#"])
    assert sum(get_group(row.id, principal=bills).days) == sum(list_groups(principal=bills).results[0].trend) == 1


def test_hours_are_kept_for_five_weeks(group: int) -> None:
    now = datetime.now(UTC)
    for days in (34, 36):
        GroupHour.objects.create(group_id=group, hour=now - timedelta(days=days), address_id=1, failures=1)
    clean_up()
    assert GroupHour.objects.count() == 2


def test_the_page_is_edited_in_place(group: int, operator_browser: Client) -> None:
    url = reverse("groups-edit", args=[group])
    form = html_of(operator_browser.get(url, headers=HTMX))
    assert "<html" not in form
    assert 'name="ticket_url"' in form
    day = (datetime.now(UTC) + timedelta(days=3)).date()
    sent = {"revision": "0", "owner": "operator", "note": "<b>known</b>", "ticket_url": TICKET, "tags": "eu, payments"}
    card = html_of(operator_browser.post(url, sent | {"snoozed_until": day.isoformat()}, headers=HTMX))
    assert 'id="annotation"' in card
    assert "&lt;b&gt;known&lt;/b&gt;" in card
    assert f'href="{TICKET}"' in card
    assert 'rel="noopener noreferrer nofollow"' in card
    assert said(group)[3:] == (["eu", "payments"], datetime(day.year, day.month, day.day, tzinfo=UTC))


def test_a_form_leaves_the_time_of_a_snooze_whose_day_it_does_not_change(group: int, operator_browser: Client) -> None:
    until = tomorrow().replace(hour=13)
    annotate(group, {"snoozed_until": until}, principal=SYSTEM)
    sent = {"revision": "1", "note": "n", "snoozed_until": until.date().isoformat()}
    assert operator_browser.post(reverse("groups-edit", args=[group]), sent).status_code == 302
    assert (said(group)[1], said(group)[4]) == ("n", until)


def test_a_form_that_is_wrong_or_stale_is_shown_again_with_what_was_typed(group: int, operator_browser: Client) -> None:
    url = reverse("groups-edit", args=[group])
    wrong = operator_browser.post(url, {"revision": "0", "note": "typed", "ticket_url": "ftp://x.example.org"})
    assert wrong.status_code == 422
    assert "typed" in html_of(wrong)
    assert "Must be a link such as" in html_of(wrong)
    annotate(group, {"note": "by another"}, principal=SYSTEM)
    stale = operator_browser.post(url, {"revision": "0", "note": "typed"})
    assert stale.status_code == 412
    assert "has changed since it was read" in html_of(stale)
    assert operator_browser.post(url, {"revision": "1", "note": "typed"}).status_code == 302
    assert said(group)[1] == "typed"


def test_the_page_merges_and_splits(group: int, operator_browser: Client) -> None:
    take_dead(exception_class="KeyError")
    other = FailureGroup.objects.latest("id").id
    merge = {"group": str(other), "reason": "the same cause"}
    shown = operator_browser.post(reverse("groups-merge", args=[group]), merge, follow=True)
    assert "1 group is merged into this one." in html_of(shown)
    assert "2 fingerprints" in html_of(shown)
    assert operator_browser.get(reverse("groups-one", args=[other]))["Location"] == reverse("groups-one", args=[group])
    shown = operator_browser.post(reverse("groups-split", args=[group]), {"group": str(other)}, follow=True)
    assert "Say why" in html_of(shown)
    shown = operator_browser.post(reverse("groups-split", args=[group]), merge, follow=True)
    assert "1 group is split off." in html_of(shown)
    assert {found.id for found in list_groups(principal=SYSTEM).results} == {group, other}


def test_a_group_shows_the_consumer_versions_that_it_was_seen_with(operator: Caller) -> None:
    make_destination(max_delivery_attempts=2)
    ids = enqueue(2) + enqueue(1, "orders.us")
    for version in ("2.4.0", "2.4.1"):
        taken = claim()
        answer(ids[:2], "failed", consumer_version=version)
        answer(ids[2:], "failed")
        end_nodes(taken)
        settle()
    GroupVersion.objects.filter(consumer_version="2.4.1").update(last_at=tomorrow())  # a test has but one now()
    group = FailureGroup.objects.get()
    versions = operator.get(f"groups/{group.id}/").json()["versions"]
    assert [(one["consumer_version"], one["failures"]) for one in versions] == [("2.4.1", 2), ("2.4.0", 2)]
    us = principal("kim", Role.VIEWER, ["orders.us"])
    assert get_group(group.id, principal=us).versions == ()
    attempts = operator.get(f"messages/{ids[0]}/attempts/").json()["results"]
    assert [attempt["consumer_version"] for attempt in attempts] == ["2.4.1", "2.4.0"]


@pytest.mark.parametrize(("grown", "more"), [({"by": 3}, 3), ({"percent": 60}, 3), ({"percent": 1}, 1)])
def test_a_group_sleeps_until_it_has_grown(group: int, operator: Caller, grown: dict[str, int], more: int) -> None:
    FailureGroup.objects.update(failures=5)
    other = FailureGroup.objects.create(
        fingerprint="e" * 16, version=2, title="t", error_class="c", failures=0, merged_into_id=group
    )
    shown = operator.ask("PATCH", f"groups/{group}/", {"snoozed_until_grown": grown}).json()
    assert shown["snoozed_failures"] == 5 + more
    # What is merged into it grows with it.
    for failures in range(more + 1):
        FailureGroup.objects.filter(id=other.id).update(failures=failures)
        is_snoozed = failures < more
        assert len(operator.get("groups/?snoozed=true").json()["results"]) == is_snoozed
        assert len(operator.get("groups/").json()["results"]) == (not is_snoozed)
        assert operator.get(f"groups/{group}/").json()["snoozed_failures"] == (5 + more if is_snoozed else None)


def test_failures_that_come_with_a_merge_end_no_snooze_and_leave_with_a_split(group: int, operator: Caller) -> None:
    FailureGroup.objects.update(failures=10)
    other = FailureGroup.objects.create(fingerprint="e" * 16, version=2, title="t", error_class="c", failures=10)
    operator.ask("PATCH", f"groups/{group}/", {"snoozed_until_grown": {"by": 3}})

    def until() -> int | None:
        return operator.get(f"groups/{group}/").json()["snoozed_failures"]

    assert until() == 13
    merge(group, [other.id], principal=SYSTEM, reason="alike")
    assert until() == 23
    split(group, [other.id], principal=SYSTEM, reason="not alike")
    assert until() == 13
    FailureGroup.objects.filter(id=group).update(failures=13)
    assert until() is None


def test_of_a_day_and_a_growth_the_first_ends_the_snooze(group: int, operator: Caller) -> None:
    body = {"snoozed_until": tomorrow().isoformat(), "snoozed_until_grown": {"by": 10}}
    operator.ask("PATCH", f"groups/{group}/", body)
    assert len(operator.get("groups/?snoozed=true").json()["results"]) == 1
    Annotation.objects.update(snoozed_until=tomorrow() - timedelta(days=2))
    assert operator.get("groups/?snoozed=true").json()["results"] == []
    # Nothing of it is left in the way of another one.
    operator.ask("PATCH", f"groups/{group}/", {"snoozed_until_grown": {"by": 10}})
    assert len(operator.get("groups/?snoozed=true").json()["results"]) == 1
    operator.ask("PATCH", f"groups/{group}/", {"snoozed_until_grown": None})
    assert operator.get("groups/?snoozed=true").json()["results"] == []


@pytest.mark.parametrize("grown", [{}, {"by": 0}, {"by": True}, {"by": 1.5}, {"by": 1, "percent": 1}, {"to": 3}, 5])
def test_what_is_no_growth_is_refused(group: int, operator: Caller, grown: object) -> None:
    assert operator.ask("PATCH", f"groups/{group}/", {"snoozed_until_grown": grown}).status_code == 400


@pytest.mark.usefixtures("page_settings")
def test_the_form_takes_a_number_or_a_share(group: int) -> None:
    browser = log_in("operator")
    FailureGroup.objects.update(failures=50)
    form = {"revision": "0", "snoozed_until_grown": "20 %", "note": ""}
    assert browser.post(f"/groups/{group}/annotation/", form).status_code == 302
    assert "snoozed until it has 60 failures" in " ".join(browser.get(f"/groups/{group}/").content.decode().split())
    kept = {"revision": "1", "snoozed_until_grown": "10", "note": "known"}
    assert browser.post(f"/groups/{group}/annotation/", kept).status_code == 302
    assert Annotation.objects.get().snoozed_failures == 60
    refused = browser.post(f"/groups/{group}/annotation/", {"revision": "2", "snoozed_until_grown": "a lot"})
    assert refused.status_code == 422
    assert "such as 100" in refused.content.decode()


@pytest.mark.parametrize(("grown", "more"), [({"by": 1}, 1), ({"percent": 50}, 1)])
def test_a_snooze_tells_nothing_of_failures_out_of_scope(grown: dict[str, int], more: int) -> None:
    for address in ("orders.us", "orders.us", *("orders.eu" for _ in range(9))):
        take_dead(address)
    group = FailureGroup.objects.get().id
    user = make_user("pat", Role.OPERATOR, ["orders.us"])
    limited = Caller(create_token(user, "test", scopes=list(Permission), by="test").text)
    shown = limited.ask("PATCH", f"groups/{group}/", {"snoozed_until_grown": grown}).json()
    assert (shown["failures"], shown["snoozed_failures"]) == (2, 2 + more)
    assert get_group(group, principal=SYSTEM).snoozed_failures == 11 + more
    (listed,) = limited.get("groups/?snoozed=true&ordering=-failures").json()["results"]
    assert (listed["failures"], listed["snoozed_failures"]) == (2, 2 + more)
    # What is merged into it, and is not in scope either, is told no more.
    FailureGroup.objects.create(
        fingerprint="e" * 16, version=2, title="t", error_class="c", failures=4, merged_into_id=group
    )
    shown = limited.ask("PATCH", f"groups/{group}/", {"snoozed_until_grown": {"by": more + 1}}).json()
    assert shown["snoozed_failures"] == 2 + more + 1
    assert get_group(group, principal=SYSTEM).snoozed_failures == 15 + more + 1
    more, total = more + 1, 15
    # Another change keeps the end of the snooze.
    limited.ask("PATCH", f"groups/{group}/", {"note": "n", "snoozed_until": tomorrow().isoformat()})
    assert get_group(group, principal=SYSTEM).snoozed_failures == total + more
