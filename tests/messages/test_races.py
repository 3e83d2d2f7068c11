"""Every transition against every other one: one holds the message, another comes; nothing is lost or done twice."""

import contextlib
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection

from poisonadmin.addresses.commands import AddressStatusConflict, pause
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.commands.decisions import Decided
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.recovery import recover
from poisonadmin.delivery.commands.settle import Settled, settle
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.messages.commands.admission import expire_due
from poisonadmin.messages.commands.counts import fold
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.claim import Claim
from poisonadmin.store.models.lane import Lane
from poisonadmin.store.models.message import Message
from tests.faults.invariants import all_broken
from tests.fixtures import decisions
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue, make_destination, states
from tests.messages.overlap import Aside, overlap, rows, together, until_blocked_or_ended

pytestmark = pytest.mark.django_db(transaction=True)

Step = Callable[[int], Any]
PAST = "2020-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def _shop(transactional_db: None) -> Iterator[None]:
    make_destination(max_delivery_attempts=1, redelivery_delay=0)
    yield
    fold()
    assert all_broken(rows) == []


def deciding(decision: Callable[..., Decided]) -> Step:
    """Return the decision as a step that tells what became of it: `done`, or why not."""

    def step(message_id: int) -> str:
        decided = decision([message_id], principal=SYSTEM, reason="a race")
        return decided.refused.get(message_id, "done")

    return step


def claiming(_: int) -> str:
    """Claim what is due."""
    return "done" if claim_due(tasks=1) else "nothing"


def settling(_: int) -> str:
    """Settle what is answered."""
    return "nothing" if settle() == Settled() else "done"


def recovering(_: int) -> str:
    """Give back what dead nodes hold."""
    return "nothing" if recover() == Settled() else "done"


def expiring(_: int) -> str:
    """Give up what is past its expiry."""
    return "done" if expire_due() else "nothing"


STEPS: dict[str, Step] = {
    "claim": claiming,
    "settle": settling,
    "recover": recovering,
    "expire": expiring,
    "approve": deciding(decisions.approve),
    "mark_fail": deciding(decisions.mark_fail),
    "quarantine": deciding(decisions.quarantine),
    "restore": deciding(decisions.restore),
    "deliver_now": deciding(decisions.deliver_now),
}


def waiting() -> int:
    """Return a message that is due."""
    return enqueue()[0]


def late() -> int:
    """Return a message that waits past its expiry."""
    return enqueue(expires_at=PAST)[0]


def under_way() -> int:
    """Return a message in DLNG whose node has died without a word."""
    (message_id,) = enqueue()
    end_nodes(claim(), "lost")
    return message_id


def delivered() -> int:
    """Return a message in DLNG that its consumer has taken."""
    (message_id,) = enqueue()
    claim()
    answer([message_id])
    return message_id


def refused() -> int:
    """Return a message in DLNG that its consumer has refused for the last time."""
    (message_id,) = enqueue()
    claim()
    answer([message_id], "failed")
    return message_id


def undecided() -> int:
    """Return a message in NDLV."""
    message_id = refused()
    settle()
    return message_id


def given_up() -> int:
    """Return a message in FAIL."""
    message_id = undecided()
    decisions.mark_fail([message_id], principal=SYSTEM, reason="x")
    return message_id


# Who can change the message as it is, and what it then is.
LEGAL: list[tuple[Callable[[], int], str, str]] = [
    (waiting, "claim", "DLNG"),
    (waiting, "quarantine", "NDLV"),
    (waiting, "deliver_now", "TBDL"),
    (late, "expire", "FAIL"),
    (under_way, "settle", "TBDL"),
    (under_way, "recover", "TBDL"),
    (delivered, "settle", "DLVD"),
    (refused, "settle", "NDLV"),
    (undecided, "approve", "TBDL"),
    (undecided, "mark_fail", "FAIL"),
    (given_up, "restore", "NDLV"),
]


@pytest.mark.parametrize(("situation", "first", "state"), LEGAL, ids=[f"{s.__name__}-{f}" for s, f, _ in LEGAL])
def test_who_comes_while_another_changes_a_message_finds_it_changed_or_leaves_it(
    situation: Callable[[], int], first: str, state: str
) -> None:
    for second, step in STEPS.items():
        message_id = situation()
        before = states([message_id])[0]
        both = overlap(partial(STEPS[first], message_id), partial(step, message_id))
        assert both.first == "done", second
        after = states([message_id])[0]
        if both.second == "done":
            # It came second: what it did starts from where the first one had led.
            assert _last_from(message_id) in {state, before}, second
        else:
            assert after == state, (second, both.second)
            assert both.second in {"nothing", state}, second
        assert all_broken(rows) == [], second


@pytest.mark.parametrize(("situation", "first", "state"), LEGAL, ids=[f"{s.__name__}-{f}" for s, f, _ in LEGAL])
def test_what_is_rolled_back_was_never_there(situation: Callable[[], int], first: str, state: str) -> None:
    for second, step in STEPS.items():
        message_id = situation()
        before = states([message_id])[0]
        both = overlap(partial(STEPS[first], message_id), partial(step, message_id), first_is_kept=False)
        if both.second != "done":
            assert states([message_id]) == [before], second
        assert all_broken(rows) == [], second
        if states([message_id]) == ["TBDL"]:
            # Whoever skipped the locked message must not have lost it from sight.
            assert STEPS["claim" if before != "TBDL" or situation is waiting else "expire"](message_id) == "done"


def _last_from(message_id: int) -> str:
    return str(rows("SELECT from_state FROM history WHERE message_id = %s ORDER BY seq DESC LIMIT 1", message_id)[0][0])


def test_of_all_who_decide_at_once_exactly_one_does() -> None:
    for seed in range(5):
        names = [*random.Random(seed).choices(["approve", "mark_fail"], k=3), "approve", "mark_fail"]
        message_id = undecided()
        results = together(*(partial(STEPS[name], message_id) for name in names))
        assert results.count("done") == 1, results
        assert set(results) - {"done"} <= {"TBDL", "FAIL"}, results
        assert all_broken(rows) == []


def test_two_claims_at_once_share_nothing() -> None:
    ids = enqueue(40)
    results = together(*[lambda: claim_due(tasks=2, limit=10)] * 4)
    assert not [one for one in results if isinstance(one, BaseException)], results
    while claim_due(tasks=2, limit=10):
        pass
    assert states(ids) == ["DLNG"] * 40
    assert rows("SELECT count(*), count(DISTINCT message_id) FROM history WHERE event = 'claimed'") == [(40, 40)]


def test_two_settles_at_once_settle_everything_once() -> None:
    ids = enqueue(60)
    claim()
    answer(ids[:30])
    answer(ids[30:], "failed")
    results = together(settle, settle, recover, settle)
    assert not [one for one in results if isinstance(one, BaseException)], results
    settle()
    assert states(ids) == ["DLVD"] * 30 + ["NDLV"] * 30
    assert rows("SELECT count(*) FROM history WHERE event IN ('delivered', 'failed')") == [(60,)]


def test_a_message_that_comes_in_between_the_two_statements_of_a_claim_is_found_by_the_next() -> None:
    enqueue(3)
    made: list[int] = []

    def come_in_between(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if "FOR NO KEY UPDATE OF lane" in sql:
            # The lanes are locked now: the message goes in, and who wakes its lane waits until the claim is over.
            aside.append(Aside(lambda: made.extend(enqueue(1))))
            until_blocked_or_ended(aside[0])
        return result

    aside: list[Aside] = []
    with connection.execute_wrapper(come_in_between):
        first = claim_due(tasks=1)
    assert first is not None
    aside[0].join()
    assert all_broken(rows) == []
    claim_due(tasks=1)
    assert set(states(made)) == {"DLNG"}


def test_the_same_message_handed_in_at_once_is_one_message() -> None:
    envelope = parse_envelope({"address": "orders.eu", "payload": "x", "message_id": "once"})
    results = together(*[lambda: accept(envelope, principal=SYSTEM, received_by="test")] * 6)
    assert not [one for one in results if isinstance(one, BaseException)], results
    assert len({one.id for one in results}) == 1
    assert sum(one.created for one in results) == 1
    assert rows("SELECT count(*) FROM message") == [(1,)]
    assert rows("SELECT count(*) FROM body") == [(1,)]


def test_a_lane_is_made_once_by_all_who_name_a_new_address() -> None:
    results = together(*(partial(enqueue, 1, address=f"orders.new{n % 2}") for n in range(6)))
    assert not [one for one in results if isinstance(one, BaseException)], results
    assert Lane.objects.filter(address__name__startswith="orders.new").count() == 2
    claim()
    assert set(Message.objects.values_list("state", flat=True)) == {"DLNG"}


def test_a_claim_of_a_dead_worker_is_closed_by_one_recover_of_many() -> None:
    ids = enqueue(5)
    taken = claim()
    Claim.objects.filter(id=taken.id).update(lease_until=PAST)
    results = together(recover, recover, recover)
    assert not [one for one in results if isinstance(one, BaseException)], results
    recover()
    assert states(ids) == ["TBDL"] * 5
    assert rows("SELECT count(*) FROM history WHERE event = 'released'") == [(5,)]


def test_a_decision_that_waits_while_the_message_is_moved_finds_it_where_it_is() -> None:
    make_destination(max_delivery_attempts=1, dead_letter_address="dead")
    message_id = refused()
    both = overlap(partial(settling, message_id), partial(STEPS["mark_fail"], message_id))
    assert both.waited
    assert both.second == "done"
    assert states([message_id]) == ["FAIL"]


def test_an_address_that_is_paused_while_a_failure_stops_it_ends_up_closed_and_nobody_fails() -> None:
    save_policy("orders.#", preset="websphere_mq", settings={}, destination="shop", principal=SYSTEM)
    refused()
    pausing: list[Aside] = []

    def pause_before_the_stop(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if "status = 'STOPPED'" in sql and not pausing:
            pausing.append(Aside(partial(pause, "orders.eu", principal=SYSTEM, reason="a race")))
            until_blocked_or_ended(pausing[0])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(pause_before_the_stop):
        settle()
    with contextlib.suppress(AddressStatusConflict):
        pausing[0].join()
    assert rows("SELECT status IN ('PAUSED', 'STOPPED') FROM address WHERE name = 'orders.eu'") == [(True,)]
    assert rows("SELECT is_open FROM lane JOIN address ON address.id = address_id WHERE name = 'orders.eu'") == [
        (False,)
    ]
