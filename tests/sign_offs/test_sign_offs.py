"""Operations above a limit wait for another person, whatever way they are begun."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from poisonadmin.core.domain.access import NotAllowed, Permission, Principal, Role, principal
from poisonadmin.core.domain.errors import NotFound, PreconditionFailed
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin, decide_on
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.operations.queries.operations import OperationDetail, get_operation
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.decisions.sign_offs.commands import (
    AnotherPersonNeeded,
    HashMismatch,
    expire_sign_offs,
    save_sign_off_rule,
    sign_off,
)
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.decisions.sign_offs.queries import begun_without_count, waiting_count
from poisonadmin.messages.domain.states import TransitionNotAllowed
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.fixtures.api import take_dead
from tests.fixtures.delivery import make_orders_destination

pytestmark = pytest.mark.django_db
APPROVE, FAIL = OperationAction.APPROVE, OperationAction.FAIL
CONSENT, REFUSE = SignOffDecision
OLGA = principal("olga", Role.OPERATOR)
RITA = principal("rita", Role.REVIEWER)
ADA = principal("ada", Role.ADMIN)


@pytest.fixture(autouse=True)
def orders(db: None) -> None:
    """Let `orders.#` deliver."""
    make_orders_destination()


def limit(above: int, match: str = "#", action: str | None = None) -> None:
    """Ask for a sign-off above so many messages."""
    save_sign_off_rule(match, action, above=above, principal=ADA)


def begun(*ids: int, action: OperationAction = APPROVE, by: Principal = OLGA, **more: object) -> OperationDetail:
    """Begin an operation on these messages and return it."""
    operation = begin(freeze(ids=ids, principal=by), action, reason="the parser is mended", principal=by, **more)  # type: ignore[arg-type]
    return get_operation(operation, principal=ADA)


def signed(
    operation: OperationDetail, decision: SignOffDecision = CONSENT, by: Principal = RITA, given: str | None = None
) -> OperationDetail:
    """Sign the operation off and return it."""
    sign_off(operation.id, decision, selection_hash=given or operation.hash, reason="I have checked it", principal=by)
    return get_operation(operation.id, principal=ADA)


def dead(n: int, address: str = "orders.eu", **more: object) -> list[int]:
    """Take dead letters in."""
    return [take_dead(address, **more) for _ in range(n)]


def states(ids: list[int]) -> set[str]:
    """Return the states of messages."""
    return set(Message.objects.filter(id__in=ids).values_list("state", flat=True))


def test_who_signs_off_sees_the_pace_and_so_does_the_audit_log() -> None:
    limit(2)
    operation = begun(*dead(3), terms=OperationTerms(Pace(4.0, has_canary=True)))
    assert operation.pace_words == "at most 4 deliveries a second; a canary of 1, then 10, then 100"
    details = Audit.objects.get(action="operation.sign_off_asked").details
    assert (details["rate_per_second"], details["has_canary"]) == (4.0, True)


def test_above_the_limit_nothing_is_done_before_another_person_consents() -> None:
    limit(2)
    ids = dead(3)
    operation = begun(*ids)
    assert (operation.state, operation.ledger.unanswered, operation.ended_at) == ("waiting_for_sign_off", 3, None)
    assert operation.sign_off == {"match": "#", "action": None, "above": 2, "count": 3, "earlier": 0}
    carry_on()
    assert states(ids) == {"NDLV"}
    done = signed(operation)
    assert (done.state, done.walked, done.sign_off_decision, done.sign_off_by) == ("running", 3, "consent", "rita")
    assert (done.reason, done.sign_off_reason) == ("the parser is mended", "I have checked it")
    assert states(ids) == {"TBDL"}
    asked, consented = Audit.objects.filter(object_type="operation").order_by("id")
    assert (asked.actor, asked.action, asked.note) == ("olga", "operation.sign_off_asked", "the parser is mended")
    assert (consented.actor, consented.action, consented.note) == ("rita", "operation.signed_off", "I have checked it")
    assert consented.details["asked_because"] == "the parser is mended"
    assert consented.details["hash"] == operation.hash


def test_as_many_as_the_limit_begin_at_once() -> None:
    limit(3)
    assert begun(*dead(3)).state == "running"


@pytest.mark.parametrize(
    ("rules", "waits_for"),
    [
        ([(2, "orders.#", None), (1, "elsewhere.#", None)], "orders.#"),
        ([(2, "orders.#", "approve")], "orders.#"),
        ([(2, "orders.#", "fail")], None),
        ([(2, "#", None), (1, "orders.eu", None)], "orders.eu"),
        ([(0, "elsewhere.#", None)], None),
        ([(3, "#", None), (10, "orders.eu", None)], None),
    ],
)
def test_the_lowest_of_the_limits_that_are_exceeded_counts(
    rules: list[tuple[int, str, str | None]], waits_for: str | None
) -> None:
    for rule in rules:
        limit(*rule)
    found = begun(*dead(3)).sign_off
    assert (found and found["match"]) == waits_for


def test_a_message_counts_where_it_is_and_where_it_goes_back_to() -> None:
    limit(1, "orders.#")
    moved = dead(1, "parked.x", original_address="orders.eu") + dead(1, "parked.y", original_address="orders.us")
    assert begun(*moved, action=FAIL).state == "waiting_for_sign_off"
    assert begun(*dead(2, "parked.x"), action=FAIL).state == "completed"


def test_many_small_operations_of_a_person_count_together_for_an_hour() -> None:
    limit(3)
    first, second, third = dead(2), dead(2), dead(2)
    assert begun(*first, action=FAIL).state == "completed"
    assert begun(*second, action=FAIL, by=ADA).state == "completed", "another person"
    assert begun(*third).state == "running", "another action"
    change(Operation.objects.latest("id").id, OperationChange.CANCEL, reason="r", principal=OLGA)
    carry_on()
    waits = begun(*third, action=FAIL)
    assert waits.sign_off is not None
    assert (waits.state, waits.sign_off["count"], waits.sign_off["earlier"]) == ("waiting_for_sign_off", 2, 2)
    assert begun(first[0], third[0], action=FAIL).state == "completed", "three different messages"
    Operation.objects.update(requested_at=Now() - timedelta(hours=2))
    assert begun(*third, action=FAIL).state == "completed"


def test_what_was_signed_off_does_not_count_again() -> None:
    limit(2)
    signed(begun(*dead(3), action=FAIL))
    assert begun(*dead(2), action=FAIL).state == "completed"


def test_the_preview_says_so_and_so_does_the_operation() -> None:
    limit(2, "orders.*")
    selection = get_selection(freeze(ids=dead(3), principal=OLGA), principal=OLGA)
    foreseen = preview(selection, APPROVE, principal=OLGA)
    assert foreseen.needs_sign_off
    assert foreseen.sign_off is not None
    assert foreseen.sign_off.sentence == ("Another person has to sign off: 3 messages, the limit at orders.* is 2.")
    operation = begin(selection.id, APPROVE, reason="r", principal=OLGA)
    assert get_operation(operation, principal=ADA).sign_off == vars(foreseen.sign_off)


def test_a_refusal_cancels_every_member() -> None:
    limit(1)
    ids = dead(2)
    operation = signed(begun(*ids), REFUSE)
    assert (operation.state, operation.ledger.cancelled) == ("cancelled", 2)
    assert operation.ended_at is not None
    assert (operation.sign_off_decision, operation.sign_off_reason) == ("refuse", "I have checked it")
    assert Audit.objects.filter(action="operation.sign_off_refused", actor="rita").count() == 1
    assert states(ids) == {"NDLV"}


def test_who_asked_may_cancel_and_nobody_pauses() -> None:
    limit(1)
    ids = dead(2)
    operation = begun(*ids)
    with pytest.raises(OperationNotChanged):
        change(operation.id, OperationChange.PAUSE, reason="r", principal=OLGA)
    with pytest.raises(OperationNotChanged):
        change(operation.id, OperationChange.RESUME, reason="r", principal=ADA)
    change(operation.id, OperationChange.CANCEL, reason="a mistake", principal=OLGA)
    found = get_operation(operation.id, principal=ADA)
    assert (found.state, found.ledger.cancelled, found.ended_at is not None) == ("cancelled", 2, True)
    with pytest.raises(OperationNotChanged, match="is cancelled"):
        signed(operation)
    assert states(ids) == {"NDLV"}


def test_nobody_consents_to_what_has_expired_and_the_tick_cancels_it() -> None:
    limit(1)
    ids = dead(2)
    operation = begun(*ids)
    assert expire_sign_offs() == 0
    assert waiting_count(RITA) == 1
    Operation.objects.update(sign_off_expires_at=Now() - timedelta(hours=1))
    with pytest.raises(OperationNotChanged, match="in time"):
        signed(operation)
    assert waiting_count(RITA) == 0
    assert expire_sign_offs() == 1
    carry_on()
    found = get_operation(operation.id, principal=ADA)
    assert (found.state, found.ledger.cancelled, found.ended_at is not None) == ("cancelled", 2, True)
    assert Audit.objects.get(action="operation.sign_off_expired").details["asked_by"] == "olga"
    assert states(ids) == {"NDLV"}


def test_the_same_person_does_not_count_as_another() -> None:
    limit(1)
    asks = Principal("rita via ci", Role.REVIEWER, RITA.permissions, account="token 1", user="rita")
    same = Principal("rita", Role.REVIEWER, RITA.permissions, account="user 7", user="rita")
    namesake = Principal("rita", Role.REVIEWER, RITA.permissions, account="user 8", user="user 8")
    operation = begun(*dead(2), by=asks)
    assert (waiting_count(same), waiting_count(namesake)) == (0, 1)
    with pytest.raises(AnotherPersonNeeded):
        signed(operation, by=same)
    with pytest.raises(AnotherPersonNeeded):
        signed(operation, REFUSE, by=same)
    assert signed(operation, by=namesake).state == "running"


def test_who_signs_off_needs_the_permission_the_hash_and_a_reason() -> None:
    limit(1)
    operation = begun(*dead(2))
    with pytest.raises(NotAllowed):
        signed(operation, by=principal("otto", Role.OPERATOR))
    with pytest.raises(HashMismatch):
        signed(operation, given="0" * 64)
    with pytest.raises(InvalidOperation):
        sign_off(operation.id, CONSENT, selection_hash=operation.hash, reason=" ", principal=RITA)
    assert Operation.objects.get().state == "waiting_for_sign_off"


def test_who_signs_off_sees_where_every_member_is_and_where_it_goes_back_to() -> None:
    limit(1)
    operation = begun(*dead(2, "parked.x", original_address="orders.eu"))
    of_both = principal("both", Role.REVIEWER, ["parked.#", "orders.#"])
    with pytest.raises(NotFound):
        signed(operation, by=principal("orders", Role.REVIEWER, ["orders.#"]))
    with pytest.raises(NotAllowed):
        signed(operation, by=principal("parked", Role.REVIEWER, ["parked.#"]))
    assert waiting_count(principal("orders", Role.REVIEWER, ["orders.#"])) == 0
    assert signed(operation, by=of_both).state == "running"


def test_a_click_and_ticked_rows_wait_too() -> None:
    limit(0)
    ids = dead(3)
    one = decide_on(ids[:1], APPROVE, reason="r", principal=OLGA, is_one=True)
    some = decide_on(ids[1:], FAIL, reason="r", principal=OLGA)
    assert one.changed == some.changed == ()
    assert states(ids) == {"NDLV"}
    for decided, expected in ((one, "running"), (some, "completed")):
        assert decided.awaits is not None
        assert signed(get_operation(decided.awaits, principal=ADA)).state == expected
    assert sorted(Message.objects.values_list("state", flat=True)) == ["FAIL", "FAIL", "TBDL"]


def test_a_click_that_would_be_refused_asks_nobody() -> None:
    limit(0)
    [message] = dead(1)
    with pytest.raises(TransitionNotAllowed):
        decide_on([message], OperationAction.RESTORE, reason="r", principal=OLGA, is_one=True)
    with pytest.raises(PreconditionFailed):
        decide_on([message], APPROVE, reason="r", principal=OLGA, is_one=True, expected_state="FAIL")
    with pytest.raises(NotFound):
        decide_on([message], APPROVE, reason="r", principal=principal("x", Role.OPERATOR, ["x.#"]), is_one=True)
    assert not Operation.objects.exists()


def test_a_canary_begins_when_it_was_signed_off() -> None:
    limit(1)
    ids = dead(5)
    operation = begun(*ids, terms=OperationTerms(Pace(has_canary=True)))
    carry_on()
    assert states(ids) == {"NDLV"}
    decide_on(ids[:1], FAIL, reason="r", principal=ADA)
    assert signed(operation).canary
    carry_on()
    found = get_operation(operation.id, principal=ADA)
    assert (found.state, found.walked, found.ledger.skipped) == ("running", 1, 0)


def test_an_administrator_breaks_the_glass_alone_and_it_stays_visible() -> None:
    limit(1)
    ids = dead(2)
    for who in (OLGA, RITA):
        with pytest.raises(NotAllowed):
            begun(*ids, by=who, terms=OperationTerms(break_glass=True))
    operation = begun(*ids, by=ADA, terms=OperationTerms(break_glass=True))
    assert (operation.state, operation.walked) == ("running", 2)
    assert operation.broke_glass_at is not None
    assert operation.sign_off is not None
    row = Audit.objects.get(action="operation.broke_glass")
    assert (row.actor, row.note, row.details["sign_off"]["above"]) == ("ada", "the parser is mended", 1)


def test_reviewers_who_see_the_operation_are_told_of_broken_glass_for_a_day() -> None:
    limit(1)
    begun(*dead(2), by=ADA, terms=OperationTerms(break_glass=True))
    elsewhere = principal("bill", Role.REVIEWER, ["bills.#"])
    assert [begun_without_count(who) for who in (RITA, ADA, OLGA, elsewhere)] == [1, 0, 0, 0]
    Operation.objects.update(broke_glass_at=Now() - timedelta(days=2))
    assert begun_without_count(RITA) == 0


def test_glass_that_need_not_be_broken_is_not() -> None:
    limit(2)
    operation = begun(*dead(2), by=ADA, terms=OperationTerms(break_glass=True))
    assert (operation.state, operation.broke_glass_at) == ("running", None)
    assert Permission.BREAK_GLASS not in RITA.permissions
