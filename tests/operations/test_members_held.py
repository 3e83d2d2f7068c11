"""An operation's pause and rate hold for each member: in a conversation, as a candidate, on its own, tried again."""

from datetime import timedelta

import pytest
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin, decide_on
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.delivery.commands.claim import claim_due, claim_isolated, seconds_until_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.claim import ClaimShard
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.lane import Lane
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation, OperationPace
from tests.fixtures.api import take
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue, make_destination, states
from tests.operations.follow import answer_claim, approve_all, ledger, state
from workers.delivery.claimed import read_claimed
from workers.delivery.sessions import Sessions

pytestmark = pytest.mark.django_db
DEAD = {"reason": "gave up", "exception_class": "TimeoutError", "exception_message": "no answer in 30 s"}
AT_A_RATE = OperationTerms(Pace(4.0))


def dead(count: int = 1, address: str = "orders.eu", *, candidate: bool = False, **fields: object) -> list[int]:
    """Take messages in that wait for a decision."""
    ids = [take(address, dead_letter=DEAD, **fields) for _ in range(count)]
    if candidate:
        Message.objects.filter(id__in=ids).update(candidate=True, crash_count=1)
    return ids


def taken() -> list[int]:
    """Claim, and return what was claimed in the order in which it is to begin."""
    claimed = claim_due(tasks=1)
    if claimed is None:
        return []
    return [one for shard in ClaimShard.objects.filter(claim_id=claimed.id) for one in shard.message_ids]


def begun(terms: OperationTerms) -> int:
    """Begin to approve all, with its first slot now; the clock of a test's transaction stands still."""
    operation = approve_all(terms=terms)
    free_slots()
    return operation


def free_slots() -> None:
    OperationPace.objects.update(next_slot="2020-01-01T00:00:00Z")


def pause(operation: int) -> None:
    change(operation, OperationChange.PAUSE, reason="wait", principal=SYSTEM)


def resume(operation: int) -> None:
    change(operation, OperationChange.RESUME, reason="go", principal=SYSTEM)


def test_a_paused_operation_on_a_few_holds_them_and_nobody_else() -> None:
    make_destination()
    ids = dead(3)
    operation = approve_all()
    pause(operation)
    others = enqueue(2)
    assert sorted(taken()) == others
    assert (taken(), states(ids)) == ([], ["TBDL"] * 3)
    assert seconds_until_due() is None, "what is held is not due, so nobody claims again and again"
    resume(operation)
    assert sorted(taken()) == ids


def test_a_paused_operation_on_one_message_holds_its_next_attempt() -> None:
    make_destination()
    [message] = dead()
    decide_on([message], OperationAction.APPROVE, reason="r", principal=SYSTEM, is_one=True)
    operation = Operation.objects.get()
    under_way = claim()
    pause(operation.id)
    answer([message], "failed")
    end_nodes(under_way)
    settle()
    assert (states([message]), taken()) == (["TBDL"], [])
    resume(operation.id)
    assert taken() == [message]


@pytest.mark.parametrize("terms", [OperationTerms(), AT_A_RATE])
def test_a_pause_holds_the_conversation_behind_its_member_and_no_other(terms: OperationTerms) -> None:
    make_destination(ordered=True)
    [member] = dead(conversation_id="c-1")
    behind = enqueue(2, conversation_id="c-1")
    operation = begun(terms)
    pause(operation)
    other = enqueue(conversation_id="c-2")
    assert taken() == other
    assert taken() == []
    resume(operation)
    assert taken() == [member, *behind] if terms.pace.rate_per_second is None else [member]


def test_a_pause_reaches_what_is_on_the_lane_of_its_conversation_already() -> None:
    make_destination(ordered=True)
    for name in ("c-1", "c-2"):
        dead(6, conversation_id=name)
    operation = begun(AT_A_RATE)
    assert len(answer_claim()) == 4
    free_slots()
    assert Lane.objects.filter(conversation_id__isnull=False, next_due__lte=timezone.now()).exists()
    pause(operation)
    assert taken() == []
    resume(operation)
    assert len(taken()) == 4


@pytest.mark.parametrize("terms", [OperationTerms(), AT_A_RATE])
def test_a_pause_holds_candidates_and_they_hold_nobody(terms: OperationTerms) -> None:
    make_destination()
    ids = dead(2, candidate=True)
    operation = begun(terms)
    pause(operation)
    assert claim_isolated() is None
    others = enqueue(2)
    assert sorted(taken()) == others
    answer(others)
    settle()
    resume(operation)
    alone = claim_isolated()
    assert alone is not None
    assert states(ids) == ["DLNG"] * 2


def test_the_slots_of_an_operation_are_shared_by_all_that_it_has_delivered() -> None:
    """On several addresses, in conversations and alone: one claim takes no more than start within its horizon."""
    make_destination(ordered=False)
    for n in range(10):
        dead(2, f"orders.{n}")
    operation = begun(OperationTerms(Pace(6.0)))
    assert len(taken()) == 6
    assert taken() == [], "its slots are used up"
    assert ledger(operation) == {"unanswered": 20}


def test_candidates_begin_at_the_slots_of_their_operation() -> None:
    make_destination()
    dead(8, candidate=True)
    begun(AT_A_RATE)
    alone = claim_isolated()
    assert alone is not None
    starts = sorted(Message.objects.filter(state="DLNG").values_list("start_at", flat=True))
    assert (len(starts), starts[-1] - starts[0] > timedelta(seconds=0.7)) == (4, True)
    answer(Message.objects.filter(state="DLNG").values_list("id", flat=True))
    end_nodes(alone)
    settle()
    OperationPace.objects.update(next_slot=timezone.now() + timedelta(seconds=60))
    assert claim_isolated() is None
    others = enqueue(2)
    assert sorted(taken()) == others, "a candidate whose slot is far off keeps nobody waiting"


def test_conversations_take_turns_at_the_slots() -> None:
    make_destination(ordered=True)
    first, second = (dead(3, conversation_id=name) for name in ("c-1", "c-2"))
    begun(AT_A_RATE)
    begins = taken()
    assert [sorted(begins[:2]), sorted(begins[2:])] == [[first[0], second[0]], [first[1], second[1]]]


def test_what_is_tried_again_waits_with_its_operation_alone_or_not() -> None:
    make_destination()
    failing, crashing = dead(2)
    operation = begun(AT_A_RATE)
    under_way = claim()
    answer([failing], "failed")
    crash = {"error_class": "HandlerSegfault", "error_message": "killed", "fingerprint": "c" * 16, "title": "Segfault"}
    answer([crashing], "crashed", **crash)
    end_nodes(under_way)
    settle()
    lanes = Message.objects.order_by("id").values_list("lane__operation_id", "lane__is_isolation")
    assert list(lanes) == [(operation, False), (operation, True)]


def test_what_is_moved_and_delivered_there_keeps_the_pace_of_its_operation() -> None:
    make_destination()
    [message] = dead()
    operation = begun(AT_A_RATE)
    under_way = claim()
    answer([message], "moved", move_to="orders.repaired")
    end_nodes(under_way)
    settle()
    found = Message.objects.values("state", "address__name", "lane__operation_id").get()
    assert found == {"state": "TBDL", "address__name": "orders.repaired", "lane__operation_id": operation}


def test_two_operations_share_the_rate_of_their_destination() -> None:
    make_destination()
    Destination.objects.update(max_rate_per_second=4, next_slot="2020-01-01T00:00:00Z")
    for address in ("orders.eu", "orders.us"):
        some = dead(6, address)
        selection = freeze(ids=some, principal=SYSTEM)
        begin(selection, OperationAction.APPROVE, reason="r", principal=SYSTEM, terms=AT_A_RATE)
    free_slots()
    assert len(taken()) == 4
    starts = sorted(Message.objects.filter(state="DLNG").values_list("start_at", flat=True))
    assert len(set(starts)) == 4
    assert taken() == []


@pytest.mark.django_db(transaction=True)
def test_a_task_leaves_out_what_was_paused_after_its_claim(test_database_url: str) -> None:
    make_destination()
    ids = dead(2)
    operation = approve_all()
    under_way = claim()
    pause(operation)
    other = enqueue()
    with Sessions(test_database_url) as sessions:
        assert not read_claimed(sessions.reader(), under_way.id, 0)
        also = claim()
        assert [one.message_id for one in read_claimed(sessions.reader(), also.id, 0)] == other
    end_nodes(under_way)
    settle()
    assert states(ids) == ["TBDL"] * 2


CANARY = OperationTerms(Pace(has_canary=True))


def test_a_canary_tries_whole_conversations_from_their_first_members_on() -> None:
    make_destination(ordered=True)
    for n in range(5):
        dead(40, conversation_id=f"c-{n}")
    operation = begun(CANARY)
    sizes = []
    while state(operation) == "running":
        carry_on()
        waiting = Message.objects.filter(state="TBDL").count()
        if not waiting:
            break
        delivered: list[int] = []
        while len(delivered) < waiting:
            delivered += answer_claim()
        sizes.append(waiting)
        carry_on()
    assert sizes == [1, 10, 100, 89]
    assert ledger(operation) == {"delivered": 200}


def test_a_canary_halts_when_what_it_tries_waits_behind_one_that_failed_again() -> None:
    make_destination(ordered=True, max_delivery_attempts=1)
    conversations = [dead(2, conversation_id=f"c-{n}") for n in range(20)]
    operation = begun(CANARY)
    carry_on()
    assert len(answer_claim()) == 1
    carry_on()
    carry_on()
    under_way = claim()
    tried = list(Message.objects.filter(state="DLNG").values_list("id", flat=True))
    failing = next(first for first, second in conversations if first in tried and second in tried)
    group = Message.objects.get(id=failing).group
    assert group is not None
    as_before = {"fingerprint": group.fingerprint, "title": group.title}
    answer([failing], "failed", **as_before)
    answer([one for one in tried if one not in {failing, failing + 1}])
    end_nodes(under_way)
    settle()
    carry_on()
    assert state(operation) == "halted"
    assert Operation.objects.get(id=operation).halted_why == (
        "1 wait behind messages of their conversations that were stopped again."
    )
