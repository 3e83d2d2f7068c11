"""The failure log and the failure groups."""

from datetime import UTC, datetime, timedelta

import pytest

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.queries.paging import Count
from poisonadmin.groups.queries import groups
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries import failures
from poisonadmin.search.queries.failures import FailureFilter, FailureRow, list_failures
from poisonadmin.store.models.attempt import Attempt, FailureGroup
from tests.fixtures import decisions

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)
ELSEWHERE = principal("kim", Role.VIEWER, ["bills.#"])


@pytest.fixture
def failed() -> list[FailureRow]:
    """Return the log of twelve dead letters, as it is without a filter."""
    for number in range(12):
        dead_letter = {
            "exception_class": "TimeoutError" if number % 2 else "KeyError",
            "exception_message": "gone",
            "failed_at": (NOW - timedelta(minutes=50 * number)).isoformat(),
        }
        address = "orders.eu" if number % 3 else "bills.eu"
        envelope = parse_envelope({"address": address, "payload": "x", "dead_letter": dead_letter})
        accept(envelope, principal=SYSTEM, received_by="test")
    return list_failures(FailureFilter(), principal=SYSTEM).results


def test_the_log_is_newest_first(failed: list[FailureRow]) -> None:
    assert [row.finished_at for row in failed] == [NOW - timedelta(minutes=50 * number) for number in range(12)]


def test_what_a_handler_chose_to_do_is_no_failure(failed: list[FailureRow]) -> None:
    Attempt.objects.create(message_id=failed[0].message_id, attempt_number=1, finished_at=NOW, outcome="discarded")
    assert list_failures(FailureFilter(), principal=SYSTEM).results == failed


@pytest.mark.parametrize("few", [0, 20_000], ids=["walking the log", "messages first"])
def test_each_filter_keeps_what_it_says(few: int, failed: list[FailureRow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FEW_MESSAGES", few)
    group = failed[0].group_id
    assert group is not None
    cases = {
        FailureFilter(addresses=("bills.#",)): lambda row: row.address == "bills.eu",
        FailureFilter(addresses=("none.#",)): lambda _: False,
        FailureFilter(groups=(group,)): lambda row: row.group_id == group,
        FailureFilter(errors=("timeout",)): lambda row: row.error_class == "TimeoutError",
        FailureFilter(errors=("nothing",)): lambda _: False,
        FailureFilter(groups=(group,), errors=("timeout",)): lambda _: False,
        FailureFilter(message=failed[3].message_id): lambda row: row.message_id == failed[3].message_id,
        FailureFilter(destinations=("shop",)): lambda _: False,
        FailureFilter(failed_after=failed[4].finished_at): lambda row: row.finished_at >= failed[4].finished_at,
        FailureFilter(failed_before=failed[4].finished_at): lambda row: row.finished_at < failed[4].finished_at,
    }
    for only, kept in cases.items():
        assert list_failures(only, principal=SYSTEM).results == [row for row in failed if kept(row)], only
    seen = list_failures(FailureFilter(addresses=("#",)), principal=ELSEWHERE).results
    assert seen == [row for row in failed if row.address == "bills.eu"]


def test_a_group_counts_by_state_and_by_hour(failed: list[FailureRow]) -> None:
    first, second = groups.list_groups(principal=SYSTEM).results
    assert (first.error_class, first.failures, first.counts["NDLV"], first.last_at) == ("KeyError", 6, 6, NOW)
    assert (sum(first.trend), len(first.trend)) == (6, 24)
    hours_ago = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - NOW.replace(minute=0, second=0)
    assert first.trend[-1 - hours_ago // timedelta(hours=1)] == 1
    assert second.title.startswith("TimeoutError")
    assert groups.list_groups(parse_filter({"failure": ["keyerror"]}), principal=SYSTEM).results == [first]


def test_a_group_shows_what_is_in_scope_only(failed: list[FailureRow]) -> None:
    (keys, times) = groups.list_groups(principal=ELSEWHERE).results
    assert (keys.counts["NDLV"], times.counts["NDLV"]) == (2, 2)
    assert sum(keys.trend) == 2
    nobody = principal("lee", Role.VIEWER, ["nowhere.#"])
    assert groups.list_groups(principal=nobody).results == []
    with pytest.raises(NotFound):
        groups.get_group(keys.id, principal=nobody)


def test_groups_come_in_any_order(failed: list[FailureRow]) -> None:
    keys, times = (
        groups.list_groups(parse_filter({"failure": [error]}), principal=SYSTEM).results[0].id
        for error in ("key", "timeout")
    )
    decisions.mark_fail([row.message_id for row in failed if row.group_id == keys][:5], principal=SYSTEM, reason="r")
    FailureGroup.objects.filter(id=keys).update(failures=7, first_at=NOW, last_at=NOW - timedelta(days=2))
    expected = {"-last_at": [times, keys], "-first_at": [keys, times], "-failures": [keys, times]}
    for ordering, ids in (expected | {"-undecided": [times, keys]}).items():
        first = groups.list_groups(principal=SYSTEM, limit=1, ordering=ordering)
        rest = groups.list_groups(principal=SYSTEM, limit=1, ordering=ordering, cursor=first.next)
        assert [row.id for row in (*first.results, *rest.results)] == ids, ordering
        assert first.total() == rest.total() == Count(2, capped=False)
    with pytest.raises(InvalidFilter):
        groups.list_groups(principal=SYSTEM, ordering="title")


@pytest.mark.parametrize("ordering", groups.ORDERINGS)
def test_the_order_of_groups_shows_nothing_beyond_the_scope(failed: list[FailureRow], ordering: str) -> None:
    """Of each group two failures are in the scope, and the one that the other group lacks are not."""
    first = groups.list_groups(principal=ELSEWHERE, limit=1, ordering=ordering)
    before = [*first.results, *groups.list_groups(principal=ELSEWHERE, cursor=first.next, ordering=ordering).results]
    busy = next(row.group_id for row in failed if row.address == "orders.eu" and row.group_id != before[0].id)
    FailureGroup.objects.filter(id=busy).update(failures=1000, first_at=NOW)
    after = groups.list_groups(principal=ELSEWHERE, ordering=ordering).results
    assert [(row.id, row.failures, row.first_at) for row in after] == [
        (row.id, row.failures, row.first_at) for row in before
    ]
