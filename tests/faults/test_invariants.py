"""A check that cannot fail checks nothing: each invariant is broken by hand here, and must be seen."""

from collections.abc import Callable

import pytest
from django.db import connection

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.policies.domain.policy import Policy
from poisonadmin.store.models.message import Message
from tests.faults import invariants
from tests.fixtures.delivery import answer, claim, enqueue, make_destination
from tests.messages.overlap import rows
from tests.whole_system.consumer import Arrival

pytestmark = pytest.mark.django_db

Check = Callable[[invariants.Ask], list[str]]

# The append-only trigger of the history is there to prevent just this.
_UNLOCKED = "ALTER TABLE history DISABLE TRIGGER USER; {}; ALTER TABLE history ENABLE TRIGGER USER"
BROKEN: list[tuple[str, Check, str]] = [
    ("a body is gone", invariants.torn, "DELETE FROM body WHERE id = {id}"),
    ("a message is gone", invariants.torn, "DELETE FROM message WHERE id = {id}"),
    ("a floor is too high", invariants.sleeping, "UPDATE lane SET next_due = now() + interval '1 day'"),
    ("a floor is gone", invariants.sleeping, "UPDATE lane SET next_due = NULL"),
    ("a state is counted wrongly", invariants.wrong_counters, "UPDATE message SET state = 'DLVD' WHERE id = {id}"),
    ("a delta is lost", invariants.wrong_counters, "DELETE FROM counter_delta"),
    ("a change left no history", invariants.broken_chains, "UPDATE message SET state = 'DLVD' WHERE id = {id}"),
    ("an attempt left no history", invariants.broken_chains, "UPDATE message SET attempt_number = 9 WHERE id = {id}"),
    (
        "an illegal transition",
        invariants.broken_chains,
        _UNLOCKED.format("UPDATE history SET event = 'restored' WHERE message_id = {id}"),
    ),
    (
        "given back by the archive while it was live",
        invariants.broken_chains,
        """INSERT INTO history (message_id, from_state, to_state, event, attempt_number, actor)
           VALUES ({id}, NULL, 'NDLV', 'restored_from_archive', 0, 'x');
           UPDATE message SET state = 'NDLV', reason = 'from_archive' WHERE id = {id}""",
    ),
    ("no history at all", invariants.broken_chains, _UNLOCKED.format("DELETE FROM history WHERE message_id = {id}")),
    ("settled by nobody's outcome", invariants.stale_writes, "DELETE FROM attempt"),
    ("a candidate", invariants.accused, "UPDATE message SET candidate = TRUE WHERE id = {id}"),
    ("a failure nobody gave", invariants.accused, "UPDATE message SET failure_count = 1 WHERE id = {id}"),
    (
        "under way for ever",
        invariants.stuck,
        "UPDATE message SET state = 'DLNG', claim_id = -1, shard = 0 WHERE id = {id}",
    ),
]


@pytest.mark.parametrize(("check", "break_it"), [one[1:] for one in BROKEN], ids=[one[0] for one in BROKEN])
def test_a_broken_invariant_is_seen(check: Check, break_it: str) -> None:
    make_destination()
    (delivered,) = enqueue(address="orders.other")
    claim()
    answer([delivered])
    settle()
    (waiting,) = enqueue()
    assert check(rows) == []
    with connection.cursor() as cursor:
        cursor.execute(break_it.format(id=waiting))
    assert check(rows) != []


def test_a_lost_message_is_seen() -> None:
    make_destination()
    enqueue(message_id="here")
    assert invariants.lost(rows, {"here"}, []) == []
    assert invariants.lost(rows, {"here", "gone"}, []) == ["accepted and gone: 1 (gone)"]
    Message.objects.update(state="DLVD")
    assert "no consumer has taken it" in invariants.lost(rows, {"here"}, [])[0]


def test_duplicates_are_seen_and_have_to_be_owned_up_to() -> None:
    make_destination()
    (message_id,) = enqueue()
    claim()
    answer([message_id])
    settle()
    first = Arrival(message_id, 1, "orders.eu", 0.0, 200, b"", "")
    assert invariants.untraceable(rows, [first]) == []
    assert "under one attempt number" in invariants.untraceable(rows, [first, first])[0]
    unknown = Arrival(message_id, 2, "orders.eu", 1.0, 200, b"", "")
    assert "does not say why" in invariants.untraceable(rows, [first, unknown])[0]


def test_an_attempt_before_its_time_is_seen() -> None:
    make_destination()
    (message_id,) = enqueue()
    claim()
    answer([message_id], "failed")
    settle()
    claim()
    assert invariants.early(rows, lambda _: Policy(redelivery_delay=0), []) == []
    assert "early" in invariants.early(rows, lambda _: Policy(redelivery_delay=60_000), [])[0]
