"""All proposals above a likeness are merged by one click, and taken back by another."""

import threading

import pytest
from django.db import connection, transaction

from poisonadmin.alike_groups.commands.merges import InvalidLikeness, MergeUndone, NothingToMerge, merge_all, undo
from poisonadmin.alike_groups.queries.merges import get_merge, latest_merge
from poisonadmin.alike_groups.queries.proposals import count_alike
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.messages.commands import many_merged_groups
from poisonadmin.messages.commands.merged_groups import merge, split
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.alike_groups import AlikeMerge, GroupProposal
from poisonadmin.store.models.attempt import FailureGroup

pytestmark = pytest.mark.django_db
PAT = principal("pat", Role.OPERATOR)


def group(name: str) -> int:
    made = FailureGroup.objects.create(fingerprint=f"{name:0<16}"[:16], version=1, title=name, error_class="E")
    return made.id


def propose(group_id: int, into: int, similarity: float) -> int:
    """Propose to merge a group into another one."""
    failure = {"kind": "E", "message": "", "frames": []}
    return GroupProposal.objects.create(
        place=into,
        into_id=into,
        group_id=group_id,
        into_member=into,
        group_member=group_id,
        into_message=1,
        group_message=1,
        into_failure=failure,
        group_failure=failure,
        similarity=similarity,
        text="",
        digest=f"{group_id}-{into}",
    ).id


def merged() -> dict[int, int]:
    return dict(FailureGroup.objects.exclude(merged_into=None).values_list("id", "merged_into_id"))


@pytest.fixture
def ids(db: None) -> dict[str, int]:
    """Make two stars: b and c are like a, d less so; f is like e, and g was merged into f."""
    made = {name: group(name) for name in "abcdefg"}
    merge(made["f"], [made["g"]], principal=SYSTEM, reason="known")
    for one, into, similarity in (("b", "a", 0.97), ("c", "a", 0.9), ("d", "a", 0.8), ("f", "e", 0.92)):
        propose(made[one], made[into], similarity)
    return made


def test_what_is_as_much_alike_is_merged_and_undone_as_it_was(ids: dict[str, int]) -> None:
    before = merged()
    assert count_alike((75, 80, 90, 95), principal=PAT) == {75: 4, 80: 4, 90: 3, 95: 1}
    made = merge_all(90, principal=PAT)
    a, e = ids["a"], ids["e"]
    assert merged() == {ids["b"]: a, ids["c"]: a, ids["f"]: e, ids["g"]: e}
    row = get_merge(made, principal=PAT)
    assert (row.likeness, row.proposals, row.merged_by, row.undone_at) == (90, 3, "pat", None)
    assert latest_merge(principal=PAT) == row
    assert count_alike((75, 90), principal=PAT) == {75: 1, 90: 0}
    with pytest.raises(NothingToMerge):
        merge_all(90, principal=PAT)
    assert undo(made, principal=PAT) == 4
    assert merged() == before == {ids["g"]: ids["f"]}
    assert latest_merge(principal=PAT) is None
    with pytest.raises(MergeUndone):
        undo(made, principal=PAT)
    assert count_alike((90,), principal=PAT) == {90: 3}
    entries = Audit.objects.exclude(actor="system").order_by("id").values_list("action", "object_id", "note")
    assert list(entries) == [
        ("group.merged", str(a), "They look alike (at least 90 %)."),
        ("group.merged", str(e), "They look alike (at least 90 %)."),
        ("alike_groups.merged", str(made), None),
        ("group.split", str(a), f"Merge {made} is undone."),
        ("group.split", str(e), f"Merge {made} is undone."),
        ("alike_groups.merge_undone", str(made), None),
    ]


def test_what_people_have_done_since_is_left_alone(ids: dict[str, int]) -> None:
    made = merge_all(75, principal=PAT)
    elsewhere = group("elsewhere")
    split(ids["a"], [ids["b"]], principal=SYSTEM, reason="no")
    split(ids["e"], [ids["f"]], principal=SYSTEM, reason="no")
    merge(elsewhere, [ids["f"]], principal=SYSTEM, reason="there")
    assert undo(made, principal=PAT) == 3
    # g had been merged into f, and goes where that one is now.
    assert merged() == {ids["f"]: elsewhere, ids["g"]: elsewhere}


def test_what_was_merged_since_it_was_proposed_is_left_alone(ids: dict[str, int]) -> None:
    other = group("other")
    merge(other, [ids["a"]], principal=SYSTEM, reason="there")
    made = merge_all(75, principal=PAT)
    assert AlikeMerge.objects.get(id=made).proposals == 1
    assert merged() == {ids["a"]: other, ids["f"]: ids["e"], ids["g"]: ids["e"]}


def test_a_group_takes_as_many_as_it_has_room_for(ids: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_merged_groups, "MAX_MEMBERS", 3)
    merge_all(75, principal=PAT)
    # The ones that are most alike; e has room for f with what is merged into it.
    assert merged() == {ids["b"]: ids["a"], ids["c"]: ids["a"], ids["f"]: ids["e"], ids["g"]: ids["e"]}


def test_groups_that_are_proposed_for_one_another_make_no_circle(ids: dict[str, int]) -> None:
    propose(ids["a"], ids["b"], 0.99)
    propose(ids["e"], ids["a"], 0.98)
    merge_all(75, principal=PAT)
    found = merged()
    assert found[ids["a"]] == ids["b"]
    assert not {*found.values()} & {*found}


def test_mistakes_and_who_may_not_are_refused(ids: dict[str, int]) -> None:
    for likeness in (0, 74, 101, -1):
        with pytest.raises(InvalidLikeness):
            merge_all(likeness, principal=PAT)
    with pytest.raises(NothingToMerge):
        merge_all(100, principal=PAT)
    made = merge_all(75, principal=PAT)
    for other in (principal("vic", Role.VIEWER), principal("kim", Role.ADMIN, ["orders.us"])):
        with pytest.raises(NotAllowed):
            merge_all(75, principal=other)
        with pytest.raises(NotAllowed):
            undo(made, principal=other)
    assert latest_merge(principal=principal("kim", Role.ADMIN, ["orders.us"])) is None
    with pytest.raises(NotFound):
        undo(10**9, principal=PAT)


def test_nothing_is_half_merged_or_half_undone(ids: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("poisonadmin.alike_groups.commands.merges.audit.record", killed)
    with pytest.raises(KeyboardInterrupt), transaction.atomic():
        merge_all(75, principal=PAT)
    assert merged() == {ids["g"]: ids["f"]}
    assert not AlikeMerge.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_clicks_one_merges(ids: dict[str, int]) -> None:
    came_to: list[str] = []

    def click() -> None:
        try:
            merge_all(75, principal=PAT)
            came_to.append("merged")
        except NothingToMerge:
            came_to.append("nothing")
        finally:
            connection.close()

    clicks = [threading.Thread(target=click) for _ in range(2)]
    for one in clicks:
        one.start()
    for one in clicks:
        one.join()
    assert sorted(came_to) == ["merged", "nothing"]
    assert AlikeMerge.objects.count() == 1
