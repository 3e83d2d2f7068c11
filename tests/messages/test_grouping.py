"""What the messages of a list share: counted exactly where the counters can tell, and bounded elsewhere."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.groups.queries import grouping
from poisonadmin.groups.queries.grouping import GroupBy, Grouping, group_messages
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.store.models.attempt import Attempt
from tests.fixtures import decisions
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)
LIMITED = principal("kim", Role.VIEWER, ["bills.#"])


@pytest.fixture
def ids() -> list[int]:
    """Take in twelve dead letters: two failures, two addresses, three tenants in a header, the fifth marked FAIL."""
    taken = []
    for number in range(12):
        fields = {
            "address": "orders.eu" if number % 3 else "bills.eu",
            "payload": "x",
            "headers": {"x-tenant": f"t{number % 3}"} if number else {},
            "dead_letter": {
                "exception_class": "TimeoutError" if number % 2 else "KeyError",
                "exception_message": "gone",
                "failed_at": (NOW - timedelta(minutes=50 * number)).isoformat(),
            },
        }
        taken.append(accept(parse_envelope(fields), principal=SYSTEM, received_by="test").id)
    decisions.mark_fail([taken[4]], principal=SYSTEM, reason="r")
    return taken


def sizes(found: Grouping) -> dict[str | None, tuple[int, int]]:
    return {one.label: (one.messages, one.undecided) for one in found.sets}


def by(what: str, filter_: dict[str, list[str]] | None = None, **more: object) -> Grouping:
    return group_messages(parse_filter(filter_ or {}), what, principal=SYSTEM, **more)  # type: ignore[arg-type]


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("filter_", [{}, {"failed_after": ["2020-01-01T00:00:00Z"]}], ids=["counters", "a scan"])
def test_sets_are_counted_by_what_they_share(filter_: dict[str, list[str]]) -> None:
    assert sizes(by("address", filter_)) == {"orders.eu": (8, 7), "bills.eu": (4, 4)}
    assert sizes(by("reason", filter_)) == {"imported": (11, 11), "failed_by_admin": (1, 0)}
    assert sizes(by("original_address", filter_)) == {None: (12, 11)}
    groups = list_groups(parse_filter(filter_), principal=SYSTEM, ordering="-messages").results
    assert sorted((one.messages, one.counts["NDLV"]) for one in groups) == [(6, 5), (6, 6)]
    assert sizes(by("header.x-tenant", filter_)) == {"t0": (3, 3), "t1": (4, 3), "t2": (4, 4), None: (1, 1)}
    assert sizes(by("key.order", filter_)) == {None: (12, 11)}


@pytest.mark.usefixtures("ids")
def test_a_set_says_when_its_messages_failed() -> None:
    found = {one.value: one for one in by("address").sets}["bills.eu"]
    assert (found.first_at, found.last_at) == (NOW - timedelta(minutes=450), NOW)
    hours = Counter((50 * number) // 60 for number in (0, 3, 6, 9))
    assert found.trend == tuple(hours.get(ago, 0) for ago in reversed(range(24)))


@pytest.mark.usefixtures("ids")
def test_sets_narrow_the_list_and_are_sorted_as_asked() -> None:
    make_orders_destination()
    for what in (GroupBy.ADDRESS, GroupBy.DESTINATION, "header.x-tenant"):
        found = by(what)
        for one in found.sets:
            if one.value is not None:
                narrowed = by("address", {found.parameter: [one.value]})
                assert sum(each.messages for each in narrowed.sets) == one.messages, (what, one.value)
    assert [one.label for one in by("address", order="size").sets] == ["orders.eu", "bills.eu"]
    assert [one.label for one in by("address", order="last").sets] == ["bills.eu", "orders.eu"]


def attempt(message: int, number: int, version: str | None, outcome: str = "failed") -> None:
    """Write an attempt of a message, as its consumer's answer gives it."""
    Attempt.objects.create(
        message_id=message, attempt_number=number, finished_at=NOW, outcome=outcome, consumer_version=version
    )


def test_messages_are_grouped_and_found_by_the_version_that_failed_last(ids: list[int]) -> None:
    for message in ids[:3]:
        attempt(message, 1, "2.4.1")
    attempt(ids[1], 2, "2.5.0")
    attempt(ids[2], 2, None)
    attempt(ids[3], 1, "2.5.0")
    attempt(ids[3], 2, None, outcome="delivered")
    assert sizes(by("consumer_version")) == {"2.5.0": (2, 2), "2.4.1": (1, 1), None: (9, 8)}
    for version, found in (("2.5.0", {ids[1], ids[3]}), ("2.4.1", {ids[0]}), ("9", set())):
        for params in ({"consumer_version": [version]}, {"q": [f'version:"{version}"']}):
            listed = list_messages(parse_filter(params), principal=SYSTEM).results
            assert {one.id for one in listed} == found, params
    others = list_messages(parse_filter({"q": ["!consumer_version:2.5.0"]}), principal=SYSTEM).results
    assert len(others) == 10


@pytest.mark.usefixtures("ids")
def test_a_long_list_is_read_to_a_bound_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert by("header.x-tenant").cut is None
    monkeypatch.setattr(grouping, "HEADERS_READ", 5)
    found = by("header.x-tenant")
    assert (found.cut, found.is_exact, sum(one.messages for one in found.sets)) == (5, False, 6)


@pytest.mark.usefixtures("ids")
def test_who_is_limited_counts_what_he_sees() -> None:
    for what in ("address", "header.x-tenant", "reason"):
        found = group_messages(parse_filter({}), what, principal=LIMITED)
        assert sum(one.messages for one in found.sets) == 4, what


@pytest.mark.parametrize("what", ["", "nothing", "header.", "key.", "header.\x00"])
def test_what_nothing_is_grouped_by_is_refused(what: str) -> None:
    with pytest.raises(InvalidFilter):
        by(what)
    with pytest.raises(InvalidFilter):
        by("address", order="up")


def test_ticked_sets_are_decided_on_together(operator_browser: Client, ids: list[int]) -> None:
    page = html_of(operator_browser.get("/triage/?state=NDLV&group_by=header.x-tenant"))
    assert page.count('name="value"') == 3
    answer = operator_browser.post(
        "/operations/select/",
        {"query": "?state=NDLV", "parameter": "header.x-tenant", "value": ["t1", "t2"]},
        follow=True,
    )
    assert "7 messages selected" in html_of(answer)
    assert len(ids) == 12
