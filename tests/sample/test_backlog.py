"""The backlog for load tests breaks no invariant, whatever is asked of it."""

import pytest
from django.core.management import CommandError, call_command

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.groups.domain.failures import Failure, fingerprint
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.messages.commands.counts import fold
from poisonadmin.messages.domain.states import State
from poisonadmin.messages.queries.counts import counts
from poisonadmin.store.models.attempt import Attempt, FailureGroup
from sample.backlog import load
from tests.faults.invariants import all_broken
from tests.fixtures import decisions
from tests.messages.overlap import rows

pytestmark = pytest.mark.django_db

CONTENT = """
SELECT h.name, state, reason, g.title, attempt_number, o.name FROM message
JOIN address h ON h.id = address_id LEFT JOIN address o ON o.id = original_address_id
LEFT JOIN failure_group g ON g.id = group_id WHERE message.id > %s ORDER BY message.id
"""


@pytest.fixture(autouse=True)
def _small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MESSAGES_A_TRANSACTION", 600)


def last_id() -> int:
    found: int = rows("SELECT coalesce(max(id), 0) FROM message")[0][0]
    return found


def test_it_is_consistent_and_has_what_was_asked_for() -> None:
    call_command("load_backlog", messages=1500, groups=30, verbosity=0)
    assert all_broken(rows) == []
    fold()
    assert all_broken(rows) == []
    by_state = counts(SYSTEM).by_state
    assert sum(by_state.values()) == 1500
    assert [state for state, n in by_state.items() if not n] == [State.DLNG]
    groups = list_groups(principal=SYSTEM).results
    assert len(groups) == 30
    for group in groups:
        failed = Attempt.objects.filter(fingerprint=group.fingerprint).order_by("finished_at")
        times = failed.values_list("finished_at", flat=True)
        assert (group.failures, group.first_at, group.last_at) == (len(times), times[0], times.reverse()[0])
        assert group.sample_message_id is not None


def test_its_groups_are_those_of_their_failures() -> None:
    load.load_backlog(messages=300, groups=30)
    for group in FailureGroup.objects.all():
        one = Attempt.objects.filter(fingerprint=group.fingerprint)[0]
        failure = Failure(one.error_class or "", one.error_message or "", stack=one.stack or "")
        assert fingerprint(failure) == group.fingerprint


def test_it_can_be_decided_on() -> None:
    load.load_backlog(messages=700, groups=5)
    ids = [message_id for (message_id,) in rows("SELECT id FROM message WHERE state = 'NDLV'")]
    decided = decisions.mark_fail(ids, principal=SYSTEM, reason="known")
    assert len(decided.changed) == len(ids)
    assert all_broken(rows) == []


def test_it_repeats_and_differs_by_its_seed() -> None:
    loaded = []
    for seed in (7, 7, 8):
        before = last_id()
        load.load_backlog(messages=700, groups=10, seed=seed, force=True)
        loaded.append(rows(CONTENT, before))
    assert loaded[0] == loaded[1] != loaded[2]
    assert all_broken(rows) == []


def test_an_installation_with_messages_is_left_alone() -> None:
    call_command("load_backlog", messages=10, groups=3, verbosity=0)
    with pytest.raises(CommandError, match="nothing was loaded"):
        call_command("load_backlog", messages=10, groups=3)
    with pytest.raises(CommandError, match="at least"):
        call_command("load_backlog", messages=2, groups=3)
    assert rows("SELECT count(*) FROM message") == [(10,)]
