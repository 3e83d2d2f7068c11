"""Failure groups merged into one are one everywhere, and split off are what they were."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import attempts
from poisonadmin.groups.commands import failure_groups
from poisonadmin.groups.commands.merged_groups import MAX_MEMBERS, GroupMerged, InvalidMerge, merge, split
from poisonadmin.groups.queries.groups import get_group, list_groups
from poisonadmin.messages.queries.counts import counts
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.failures import FailureFilter, list_failures
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.message import Message
from tests.fixtures.api import Caller, take_dead
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, make_destination
from tests.messages.overlap import Aside, overlap, together, until_blocked_or_ended

pytestmark = pytest.mark.django_db
ELSEWHERE = principal("kim", Role.OPERATOR, ["bills.#"])


def group_of(message_id: int) -> int:
    """Return the group of the message's own fingerprint."""
    found = Message.objects.get(id=message_id).group_id
    assert found is not None
    return found


def died_of(name: str, address: str = "orders.eu") -> tuple[int, int]:
    """Take a dead letter in; return its id and the group of its fingerprint."""
    message = take_dead(address, exception_class=name, exception_message="gone")
    return message, group_of(message)


def merged(*pairs: tuple[int, int]) -> None:
    """Merge the second of each pair of groups into the first."""
    for target, other in pairs:
        merge(target, [other], principal=SYSTEM, reason="the same cause")


def seen(**only: list[str]) -> list[int]:
    """Return the ids of the groups in the list."""
    return [group.id for group in list_groups(parse_filter(only), principal=SYSTEM).results]


def messages_in(group_id: int, sign: str = "") -> list[int]:
    """Return the messages that a search for the group finds."""
    found = list_messages(parse_filter({"q": [f"{sign}group:{group_id}"]}), principal=SYSTEM)
    return sorted(row.id for row in found.results)


def test_merged_groups_are_one_in_every_list_and_count() -> None:
    (one, into), (other, away), (_, apart) = died_of("KeyError"), died_of("IndexError"), died_of("OSError")
    before = get_group(into, principal=SYSTEM)
    merged((into, away))
    assert sorted(seen()) == [into, apart]
    [row] = [row for row in list_groups(principal=SYSTEM).results if row.id == into]
    assert (row.title, row.failures, row.counts["NDLV"], sum(row.trend)) == (before.title, 2, 2, 2)
    assert messages_in(into) == [one, other]
    assert messages_in(into, "!") == [Message.objects.get(group_id=apart).id]
    found = list_messages(parse_filter({}), principal=SYSTEM).results
    assert {row.id: row.group_id for row in found if row.id in (one, other)} == {one: into, other: into}
    assert counts(SYSTEM).by_group[into]["NDLV"] == 2
    assert away not in counts(SYSTEM).by_group
    most = list_groups(parse_filter({"state": ["NDLV"]}), principal=SYSTEM, ordering="-undecided").results
    assert [(top.id, top.counts["NDLV"]) for top in most] == [(into, 2), (apart, 1)]
    assert len(list_failures(FailureFilter(groups=(into,)), principal=SYSTEM).results) == 2
    assert attempts(other, principal=SYSTEM).results[0].group_id == into
    assert counted() == counters()


def test_a_merged_group_shows_each_fingerprint_and_how_many_it_has() -> None:
    (_, into), (_, away) = died_of("KeyError"), died_of("IndexError")
    died_of("IndexError")
    merged((into, away))
    found = get_group(into, principal=SYSTEM)
    assert [(member.id, member.failures, member.undecided) for member in found.members] == [(into, 1, 1), (away, 2, 2)]
    alone = get_group(away, principal=SYSTEM)
    assert (alone.merged_into_id, alone.failures, [member.id for member in alone.members]) == (into, 2, [away])


def test_later_failures_of_a_merged_fingerprint_count_in_the_target() -> None:
    (_, into), (_, away) = died_of("KeyError"), died_of("IndexError")
    merged((into, away))
    later, _ = died_of("IndexError")
    assert get_group(into, principal=SYSTEM).failures == 3
    assert later in messages_in(into)
    assert seen() == [into]


def test_split_off_it_is_what_it_was_with_all_that_came_since() -> None:
    (one, into), (other, away) = died_of("KeyError"), died_of("IndexError")
    former = get_group(into, principal=SYSTEM)
    merged((into, away))
    later, _ = died_of("IndexError")
    split(into, [away], principal=SYSTEM, reason="they are two")
    assert get_group(into, principal=SYSTEM) == former
    assert get_group(away, principal=SYSTEM).failures == 2
    assert (messages_in(into), messages_in(away)) == ([one], [other, later])


def test_what_was_merged_into_a_group_goes_with_it() -> None:
    groups = [died_of(name)[1] for name in ("KeyError", "IndexError", "OSError")]
    merged((groups[1], groups[2]), (groups[0], groups[1]))
    assert set(FailureGroup.objects.values_list("id", "merged_into_id")) == {
        (groups[0], None),
        (groups[1], groups[0]),
        (groups[2], groups[0]),
    }


def test_a_text_of_the_target_finds_what_is_merged_into_it() -> None:
    (one, into), (other, away) = died_of("KeyError"), died_of("IndexError")
    merged((into, away))
    found = list_messages(parse_filter({"error": ["keyerror"]}), principal=SYSTEM).results
    assert sorted(row.id for row in found) == [one, other]
    assert seen(failure=["indexerror"]) == [into]


def test_merging_twice_changes_and_audits_nothing_more() -> None:
    (_, into), (_, away) = died_of("KeyError"), died_of("IndexError")
    merged((into, away), (into, away))
    assert Audit.objects.filter(action="group.merged").count() == 1


def test_merging_and_splitting_are_audited_with_their_reasons() -> None:
    (_, into), (_, away) = died_of("KeyError"), died_of("IndexError")
    merged((into, away))
    split(into, [away], principal=SYSTEM, reason="they are two")
    rows = (
        Audit.objects.filter(object_type="group").order_by("id").values_list("action", "object_id", "note", "details")
    )
    assert list(rows) == [
        ("group.merged", str(into), "the same cause", {"groups": [away]}),
        ("group.split", str(into), "they are two", {"groups": [away]}),
    ]


def test_what_cannot_be_merged_is_refused_and_nothing_changes() -> None:
    (_, into), (_, away), (_, apart) = died_of("KeyError"), died_of("IndexError"), died_of("OSError")
    merged((into, away))
    before = list(FailureGroup.objects.order_by("id").values_list("id", "merged_into_id"))
    refused: list[tuple[type[Exception], Callable[..., None], int, list[int]]] = [
        (InvalidMerge, merge, into, [into]),
        (InvalidMerge, merge, into, []),
        (GroupMerged, merge, away, [apart]),
        (GroupMerged, merge, apart, [away]),
        (NotFound, merge, into, [apart, 999_999]),
        (NotFound, merge, 2**63, [apart]),
        (GroupMerged, split, into, [away, apart]),
        (InvalidMerge, split, into, [into]),
        (InvalidMerge, split, into, []),
    ]
    for error, move, group, others in refused:
        with pytest.raises(error):
            move(group, others, principal=SYSTEM, reason="r")
    assert list(FailureGroup.objects.order_by("id").values_list("id", "merged_into_id")) == before


def test_a_group_has_so_many_fingerprints_at_most() -> None:
    _, into = died_of("KeyError")
    made = FailureGroup.objects.bulk_create(
        FailureGroup(fingerprint=f"{n:016x}", version=1, title="t", error_class="E") for n in range(MAX_MEMBERS)
    )
    with pytest.raises(InvalidMerge):
        merge(into, [group.id for group in made], principal=SYSTEM, reason="r")
    merge(into, [group.id for group in made[1:]], principal=SYSTEM, reason="r")
    assert len(get_group(into, principal=SYSTEM).members) == MAX_MEMBERS


def test_who_is_limited_to_some_addresses_merges_nothing() -> None:
    (_, into), (_, away) = died_of("KeyError", "bills.eu"), died_of("IndexError", "bills.eu")
    for who in (ELSEWHERE, principal("vic", Role.VIEWER)):
        for move in (merge, split):
            with pytest.raises(NotAllowed):
                move(into, [away], principal=who, reason="r")


def test_who_is_limited_sees_of_a_merged_group_only_what_is_in_scope() -> None:
    (_, into), (mine, away) = died_of("KeyError"), died_of("IndexError", "bills.eu")
    merged((into, away))
    [row] = list_groups(principal=ELSEWHERE).results
    assert (row.id, row.failures, row.counts["NDLV"]) == (into, 1, 1)
    assert "KeyError" not in f"{row.title} {row.error_class}"
    found = get_group(into, principal=ELSEWHERE)
    assert [member.id for member in found.members] == [away]
    [message] = list_messages(parse_filter({}), principal=ELSEWHERE).results
    assert (message.id, message.group_id) == (mine, into)
    assert "KeyError" not in (message.group_title or "")
    [top] = list_groups(parse_filter({"state": ["NDLV"]}), principal=ELSEWHERE, ordering="-undecided").results
    assert (top.id, "KeyError" in top.title) == (into, False)
    assert counts(ELSEWHERE).by_group == {into: counts(ELSEWHERE).by_state}


def test_who_is_limited_finds_no_group_by_a_text_that_is_out_of_scope() -> None:
    def found(text: str) -> tuple[list[int], ...]:
        groups = list_groups(parse_filter({"failure": [text]}), principal=ELSEWHERE).results
        not_said = list_groups(parse_filter({"q": [f"!failure:{text}"]}), principal=ELSEWHERE).results
        said = [
            list_messages(parse_filter({name: [text]}), principal=ELSEWHERE).results for name in ("error", "failure")
        ]
        free = list_messages(parse_filter({"q": [text]}), principal=ELSEWHERE).results
        unsaid = list_messages(parse_filter({"q": [f"!error:{text}"]}), principal=ELSEWHERE).results
        failures = list_failures(FailureFilter(errors=(text,)), principal=ELSEWHERE).results
        by_id = [[row.id for row in rows] for rows in (*said, free, unsaid)]
        return [one.id for one in groups], [one.id for one in not_said], *by_id, [row.message_id for row in failures]

    (_, into), (mine, away), (_, other) = died_of("KeyError"), died_of("IndexError", "bills.eu"), died_of("OSError")
    merged((into, away), (into, other))
    for text in ("keyerror", "oserror", "nosucherror"):
        assert found(text) == ([], [into], [], [], [], [mine], []), text
    assert found("indexerror") == ([into], [], [mine], [mine], [mine], [], [mine])
    assert seen(failure=["oserror"]) == seen(failure=["keyerror"]) == [into]


def test_the_ledger_takes_merged_failures_for_the_same_one() -> None:
    make_destination(max_delivery_attempts=1)
    as_ever, merged_one, anew = (died_of("KeyError")[0] for _ in range(3))
    _, away = died_of("IndexError", "parked.x")
    other = FailureGroup.objects.get(id=away)
    merged((group_of(as_ever), away))
    operation = begin({"address": ["orders.#"]}, OperationAction.APPROVE, reason="mended", principal=SYSTEM)
    same = FailureGroup.objects.get(id=group_of(as_ever))
    taken = claim()
    answer([as_ever], "failed", fingerprint=same.fingerprint, title=same.title)
    answer([merged_one], "failed", fingerprint=other.fingerprint, title=other.title)
    answer([anew], "failed", fingerprint="e" * 16, title="Another: failure")
    end_nodes(taken)
    settle()
    found = get_operation(operation, principal=SYSTEM).ledger
    assert (found.failed_same, found.failed_new, found.total) == (2, 1, 3)
    assert counted() == counters()


@pytest.mark.django_db(transaction=True)
def test_of_two_groups_merged_into_each_other_at_once_one_is_the_target() -> None:
    (_, one), (_, other) = died_of("KeyError"), died_of("IndexError")
    outcomes = together(lambda: merged((one, other)), lambda: merged((other, one)))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["GroupMerged", "NoneType"]
    assert len(seen()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_merge_waits_for_a_settle_and_loses_none_of_its_failures() -> None:
    (message, into), (_, away) = died_of("KeyError"), died_of("IndexError")
    group = FailureGroup.objects.get(id=away)
    address = Message.objects.get(id=message).address_id

    def counts_failures() -> None:
        one = failure_groups.Seen(
            group.fingerprint, "t", "E", message, address, first_at=group.last_at, last_at=group.last_at
        )
        with connection.cursor() as cursor:
            failure_groups.ensure(cursor, [one])

    assert overlap(counts_failures, lambda: merged((into, away))).waited
    assert get_group(into, principal=SYSTEM).failures == 3


@pytest.mark.django_db(transaction=True)
def test_a_settle_waits_for_a_merge_and_its_failures_count_in_the_target() -> None:
    (_, into), (_, away) = died_of("KeyError"), died_of("IndexError")
    with transaction.atomic():
        merged((into, away))
        aside = Aside(lambda: died_of("IndexError"))
        assert until_blocked_or_ended(aside)
    aside.join()
    assert get_group(into, principal=SYSTEM).failures == 3


def test_merge_and_split_over_the_api(operator: Caller) -> None:
    (_, into), (_, away) = died_of("KeyError"), died_of("IndexError")
    body = {"groups": [str(away)], "reason": "the same cause"}
    answered = operator.post(f"groups/{into}/merge/", body)
    assert [member["id"] for member in answered.json()["members"]] == [str(into), str(away)]
    assert operator.get(f"groups/{away}/").json()["merged_into_id"] == str(into)
    refused = operator.post(f"groups/{away}/merge/", {**body, "groups": [str(into)]})
    assert (refused.status_code, refused.json()["code"]) == (409, "group_merged")
    assert operator.post(f"groups/{into}/split/", {"groups": [str(away)]}).status_code == 400
    assert len(operator.post(f"groups/{into}/split/", body).json()["members"]) == 1
