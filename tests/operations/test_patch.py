"""Patching: payloads and headers are changed and delivered, and what they were is kept."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal, Role
from poisonadmin.decisions.commands.refused_decisions import PayloadNotChanged
from poisonadmin.decisions.operations.commands import beginning, carry_out
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin, decide_on
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.operations.queries import change_preview
from poisonadmin.decisions.operations.queries.operations import get_operation, list_operation_members
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import (
    attempts,
    get_message,
    history,
    payload,
    version_diff,
    version_payload,
    versions,
)
from poisonadmin.intake.commands.accept import MessageIdConflict
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Body, Envelope, Message, PayloadVersion
from poisonadmin.store.models.operation import Operation
from poisonadmin.store.models.poison import PoisonEntry
from tests.fixtures import decisions
from tests.fixtures.api import Caller, take
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, make_destination
from tests.intake.staging import drained, letter, make_source

pytestmark = pytest.mark.django_db
PATCH = OperationAction.PATCH
WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "mend the currency"}
DEAD = {"reason": "gave up", "exception_class": "TimeoutError"}
EURO = {"json_patch": [{"op": "replace", "path": "/currency", "value": "EUR"}]}
ORDER = {"id": 7, "currency": "EURO"}


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver, each message once, and know orders by id and currency."""
    make_destination(max_delivery_attempts=1, business_keys=["$.id", "$.currency"])


def take_order(address: str = "orders.eu", order: Any = None, **fields: Any) -> int:
    return take(address, ORDER if order is None else order, dead_letter=DEAD, **fields)


def patch(ids: Sequence[int], params: Any = None, **more: Any) -> int:
    return begin(freeze(ids=ids, principal=SYSTEM), PATCH, params=params or EURO, **{**WHY, **more})


def held(message: int) -> Any:
    return json.loads(bytes(Body.objects.get(id=message).payload))


def bytes_of(message: int, number: int) -> bytes:
    return b"".join(version_payload(message, number, principal=SYSTEM).slices)


def fail(message: int, outcome: str = "failed") -> None:
    taken = claim()
    answer([message], outcome)
    end_nodes(taken)
    settle()


def skipped(operation: int) -> dict[str, int]:
    return {one.code: one.count for one in get_operation(operation, principal=SYSTEM).skipped}


def test_the_change_is_delivered_and_what_came_in_is_kept() -> None:
    message = take_order(headers={"X-Kind": "push"})
    came_in = b"".join(payload(message, principal=SYSTEM).slices)
    operation = patch([message], {**EURO, "headers": {"set": {"X-Kind": "pull"}}})
    row = Message.objects.get(id=message)
    assert (row.state, row.failure_count, row.operation_id) == ("TBDL", 0, operation)
    assert held(message) == {"id": 7, "currency": "EUR"}
    assert get_message(message, principal=SYSTEM).headers == {"X-Kind": "pull"}
    assert Envelope.objects.get(id=message).payload_bytes == len(came_in) - 1
    now, first = versions(message, principal=SYSTEM)
    assert (now.number, now.until_attempt, now.operation_id) == (2, None, None)
    assert (first.number, first.until_attempt, first.operation_id, first.replaced_by) == (1, 0, operation, "system")
    assert bytes_of(message, 1) == came_in
    assert json.loads(bytes_of(message, 2)) == held(message)
    lines = version_diff(message, 2, principal=SYSTEM, most_bytes=10_000)
    assert lines
    assert {'-  "currency": "EURO"', '+  "currency": "EUR"', "-X-Kind: push", "+X-Kind: pull"} <= set(lines)
    change_ = history(message, principal=SYSTEM).results[0]
    assert (change_.event, change_.version, change_.operation_id) == ("patched", 2, operation)
    assert counted() == counters()


def test_each_attempt_tells_which_version_it_carried() -> None:
    """Also those before any change, and of versions that nothing was delivered of."""
    message = take_order()
    for currency in ("EU1", "EU2"):
        patch([message], {"json_patch": [{"op": "replace", "path": "/currency", "value": currency}]})
        fail(message)
    assert Message.objects.get(id=message).state == "NDLV"
    operation = patch([message], {"payload": "no json"})
    change(operation, OperationChange.CANCEL, **WHY)
    carry_on()
    decisions.approve([message], **WHY)
    fail(message, "delivered")
    made = {one.attempt_number: one.version for one in attempts(message, principal=SYSTEM).results}
    assert made == {0: 1, 1: 2, 2: 3, 3: 5}
    assert [one.number for one in versions(message, principal=SYSTEM)] == [5, 4, 3, 2, 1]
    assert held(message) == {"id": 7, "currency": "EU2"}


def test_cancelling_puts_back_what_was_not_delivered() -> None:
    messages = [take_order(), take_order()]
    operation = patch(messages)
    change(operation, OperationChange.CANCEL, **WHY)
    carry_on()
    for message in messages:
        assert Message.objects.get(id=message).state == "NDLV"
        assert held(message) == ORDER
        assert bytes_of(message, 3) == bytes_of(message, 1)
        assert Envelope.objects.get(id=message).payload_bytes == len(bytes_of(message, 1))
        assert [one.version for one in history(message, principal=SYSTEM).results[:2]] == [3, 2]
    found = list_messages(parse_filter({"key.currency": ["EURO"]}), principal=SYSTEM).results
    assert {row.id for row in found} == set(messages)
    assert counted() == counters()


def test_cancelling_an_approval_leaves_an_earlier_change_alone() -> None:
    message = take_order()
    patch([message])
    fail(message)
    operation = begin(freeze(ids=[message], principal=SYSTEM), OperationAction.APPROVE, **WHY)
    change(operation, OperationChange.CANCEL, **WHY)
    carry_on()
    assert held(message)["currency"] == "EUR"
    assert len(versions(message, principal=SYSTEM)) == 2


def test_it_is_found_by_what_it_holds_now() -> None:
    message = take_order(headers={"X-Kind": "push"})
    patch([message], {**EURO, "headers": {"set": {"X-Kind": "pull"}}})
    for wanted, hits in (
        ({"key.currency": ["EUR"]}, [message]),
        ({"key.currency": ["EURO"]}, []),
        ({"key.id": ["7"]}, [message]),
        ({"header.X-Kind": ["pull"]}, [message]),
        ({"header.X-Kind": ["push"]}, []),
    ):
        assert [row.id for row in list_messages(parse_filter(wanted), principal=SYSTEM).results] == hits


def test_marked_fail_and_restored_it_holds_the_change() -> None:
    message = take_order()
    patch([message])
    fail(message)
    decisions.mark_fail([message], **WHY)
    decisions.restore([message], **WHY)
    assert held(message)["currency"] == "EUR"
    assert decisions.approve([message], **WHY).changed == (message,)


def test_its_producer_may_send_the_original_again() -> None:
    """Version 1 is what tells a repetition from another message under the same id."""
    message = take_order(message_id="m1")
    patch([message])
    assert take_order(message_id="m1") == message
    with pytest.raises(MessageIdConflict):
        take_order(message_id="m1", order={"id": 7, "currency": "EUR"})


def test_its_broker_may_give_back_any_version_and_repeat_the_original() -> None:
    source = make_source()
    drained(source, letter(message_id="m1", payload="first"))
    message = Message.objects.get().id
    patch([message], {"payload": "second"})
    fail(message, "delivered")
    repeated = drained(source, letter(message_id="m1", payload="first"))
    assert (repeated.duplicates, Message.objects.get().state) == (1, "DLVD")
    drained(source, letter(payload="second", back=(message, 1)))
    assert Message.objects.get().state == "NDLV"
    patch([message], {"payload": "third"})
    fail(message, "delivered")
    drained(source, letter(payload="second", back=(message, 1)))
    assert [(one.id, one.state) for one in Message.objects.all()] == [(message, "DLVD")]
    drained(source, letter(payload="third", back=(message, 2)))
    assert [(one.id, one.state) for one in Message.objects.all()] == [(message, "NDLV")]


def test_what_it_does_not_apply_to_is_left_alone_as_the_preview_says() -> None:
    save_policy("orders.small", preset=None, settings={"max_payload_bytes": 30}, destination=None, principal=SYSTEM)
    fits = [take_order(), take_order("orders.small")]
    ids = [
        *fits,
        take("orders.eu", "no json", dead_letter=DEAD),
        take_order(order={"id": 8}),
        take_order(order={"currency": "EUR"}),
        take_order("orders.small", order={"currency": "x", "note": "x" * 10}),
        take_order("elsewhere.x"),
        take("orders.eu", ORDER),
    ]
    params = {"json_patch": [*EURO["json_patch"], {"op": "test", "path": "/currency", "value": "EUR"}]}
    selection = get_selection(freeze(ids=ids, principal=SYSTEM), principal=SYSTEM)
    foreseen = preview(selection, PATCH, principal=SYSTEM, params=params)
    assert {(one.code, one.detail): one.count for one in foreseen.refused} == {
        ("not_json", "invalid_json"): 1,
        ("patch_failed", "operation 1: replace /currency"): 1,
        ("unchanged", None): 1,
        ("oversized", "orders.small"): 1,
        ("no_destination", "elsewhere.x"): 1,
        ("TBDL", None): 1,
    }
    assert (foreseen.count, foreseen.accepted) == (8, 2)
    assert {one.address: one.count for one in foreseen.targets} == {"orders.eu": 1, "orders.small": 1}
    assert foreseen.change
    assert [one.message_id for one in foreseen.change.samples] == fits
    assert '+  "currency": "EUR"' in (foreseen.change.samples[0].diff or [])
    operation = patch(ids, params)
    assert skipped(operation) == {one.code: one.count for one in foreseen.refused}
    assert set(Message.objects.filter(operation_id=operation).values_list("id", flat=True)) == set(fits)
    assert set(PayloadVersion.objects.values_list("message_id", flat=True)) == set(fits)


def test_of_many_messages_some_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_preview, "MAX_TRIED", 2)
    ids = [take_order() for _ in range(3)]
    selection = get_selection(freeze(ids=ids, principal=SYSTEM), principal=SYSTEM)
    foreseen = preview(selection, PATCH, principal=SYSTEM, params=EURO)
    assert foreseen.change
    assert (foreseen.change.tried, foreseen.change.is_whole, foreseen.accepted) == (2, False, 3)


def test_a_large_operation_goes_on_in_the_middle_of_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transaction takes as many as it can parse in a second or so, with a canary too."""
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    monkeypatch.setattr(carry_out, "BYTES_AT_ONCE", 3_000)
    ids = [take_order(order={**ORDER, "n": n}) for n in range(7)]
    operation = patch(ids)
    row = Operation.objects.get(id=operation)
    walked = []
    while carry_out.carry_out_piece(row):
        row.refresh_from_db()
        walked.append((row.walked, row.pieces, row.place))
    assert walked[-1] == (7, 1, 0)
    assert len(walked) > 2
    assert all(held(message)["currency"] == "EUR" for message in ids)
    assert PayloadVersion.objects.count() == 7
    assert get_operation(operation, principal=SYSTEM).ledger.unanswered == 7


@pytest.mark.conformance("OP-e")
def test_a_patch_that_is_cancelled_in_the_middle_of_a_piece_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    monkeypatch.setattr(carry_out, "BYTES_AT_ONCE", 3_000)
    ids = [take_order(order={**ORDER, "n": n}) for n in range(7)]
    operation = patch(ids)
    assert carry_out.carry_out_piece(Operation.objects.get(id=operation))
    place = Operation.objects.get(id=operation).place
    assert 0 < place < 7
    Operation.objects.filter(id=operation).update(has_lanes=False)  # as what waits on lanes of its own is found by them
    change(operation, OperationChange.CANCEL, **WHY)
    found = get_operation(operation, principal=SYSTEM)
    for outcome, some in ((MemberOutcome.UNANSWERED, ids[:place]), (MemberOutcome.CANCELLED, ids[place:])):
        assert [row.id for row in list_operation_members(found, outcome, principal=SYSTEM).results] == some
        assert getattr(found.ledger, outcome) == len(some)
    carry_on()
    assert {Message.objects.get(id=message).state for message in ids} == {"NDLV"}
    assert {held(message)["currency"] for message in ids} == {"EURO"}
    found = get_operation(operation, principal=SYSTEM)
    assert (found.state, found.ledger.cancelled) == ("cancelled", 7)


def test_with_a_canary_each_is_changed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry_out, "BYTES_AT_ONCE", 3_000)
    ids = [take_order(order={**ORDER, "n": n}) for n in range(15)]
    operation = patch(ids, terms=OperationTerms(Pace(has_canary=True)))
    for _ in range(20):
        carry_on()
        if taken := claim_due(tasks=1, limit=100):
            answer(list(Message.objects.filter(claim_id=taken.id, state="DLNG").values_list("id", flat=True)))
            end_nodes(taken)
            settle()
    found = get_operation(operation, principal=SYSTEM)
    assert (found.ledger.delivered, PayloadVersion.objects.count()) == (15, 15)


def test_its_bookmark_is_released_like_an_approved_ones() -> None:
    message = take("orders.eu", ORDER, bookmark="b 1")
    report(Report("orders.eu", "b 1", "unreadable"), principal=SYSTEM)
    patch([message])
    assert Message.objects.get(id=message).state == "TBDL"
    assert not PoisonEntry.objects.get().is_listed


def test_what_is_too_large_for_its_address_is_made_smaller() -> None:
    save_policy("orders.small", preset=None, settings={"max_payload_bytes": 30}, destination=None, principal=SYSTEM)
    message = take("orders.small", {**ORDER, "note": "x" * 100})
    assert Message.objects.get(id=message).reason == "oversized"
    patch([message], {"json_patch": [{"op": "remove", "path": "/note"}]})
    assert list(Message.objects.filter(claim_id=claim().id).values_list("id", flat=True)) == [message]


def test_one_message_is_edited_and_a_refusal_says_why() -> None:
    message = take_order()
    edited = {"payload": '{"id": 7}\n'}
    before = Message.objects.get(id=message)
    with pytest.raises(PayloadNotChanged, match="unchanged"):
        decide_on([message], PATCH, params={"payload": json.dumps(ORDER, separators=(",", ":"))}, is_one=True, **WHY)
    assert Message.objects.get(id=message).state == before.state
    assert not Operation.objects.exists()
    decide_on([message], PATCH, params=edited, is_one=True, expected_attempt=0, **WHY)
    assert bytes_of(message, 2) == b'{"id": 7}\n'
    two = freeze(ids=[message, take_order()], principal=SYSTEM)
    with pytest.raises(InvalidOperation) as error:
        begin(two, PATCH, params=edited, **WHY)
    assert error.value.field == "params.payload"


def test_who_may_not_see_payloads_may_not_change_them_nor_read_the_change() -> None:
    message = take_order()
    operation = patch([message], {"payload": "secret"})
    blind = Principal("kim", Role.OPERATOR, frozenset({Permission.READ, Permission.DECIDE}))
    selection = freeze(ids=[take_order()], principal=SYSTEM)
    with pytest.raises(NotAllowed):
        begin(selection, PATCH, principal=blind, reason="r", params=EURO)
    with pytest.raises(NotAllowed):
        preview(get_selection(selection, principal=SYSTEM), PATCH, principal=blind, params=EURO)
    with pytest.raises(NotAllowed):
        version_payload(message, 1, principal=blind)
    assert get_operation(operation, principal=blind).params == {}
    assert get_operation(operation, principal=SYSTEM).params == {"payload_bytes": 6}
    assert [one.number for one in versions(message, principal=blind)] == [2, 1]


def test_it_is_not_there_for_who_does_not_see_its_address(outsider: Caller, operator: Caller) -> None:
    message = take_order()
    patch([message])
    for path in ("versions/", "versions/1/payload/"):
        assert operator.get(f"messages/{message}/{path}").status_code == 200
        assert outsider.get(f"messages/{message}/{path}").status_code == 404
    assert operator.get(f"messages/{message}/versions/3/payload/").status_code == 404


def test_over_the_api_for_a_set_and_for_one(operator: Caller) -> None:
    messages = [take_order() for _ in range(3)]
    selection = operator.post("selections/", {"ids": [str(one) for one in messages[:2]]}).json()["id"]
    foreseen = operator.post(f"selections/{selection}/preview/", {"action": "patch", "params": EURO}).json()
    assert (foreseen["accepted"], foreseen["change"]["tried"], foreseen["change"]["is_whole"]) == (2, 2, True)
    asked = {"selection": selection, "action": "patch", "params": EURO, "reason": "r"}
    assert operator.post("operations/", asked).json()["params"] == EURO | {"waive": []}
    edited = {"payload": '{"id": 7}', "headers": {"set": {"X-By": "kim"}}, "reason": "r"}
    assert operator.post(f"messages/{messages[2]}/patch/", edited).json()["state"] == "TBDL"
    assert operator.get(f"messages/{messages[2]}/payload/").content == b'{"id": 7}'
    listed = operator.get(f"messages/{messages[2]}/versions/").json()["results"]
    assert [(one["number"], one["payload_bytes"]) for one in listed] == [(2, 9), (1, 26)]
    wrong = operator.post(f"messages/{messages[2]}/patch/", {"json_patch": [{"op": "add"}], "reason": "r"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_operation")


def test_a_version_is_neither_changed_nor_removed() -> None:
    patch([take_order()])
    for statement in ("UPDATE payload_version SET payload = ''", "DELETE FROM payload_version"):
        with connection.cursor() as cursor, pytest.raises(DatabaseError, match="payload_version"), transaction.atomic():
            cursor.execute(statement)


def test_it_is_delivered_by_the_change_and_by_nothing_else() -> None:
    """State and payload are changed in one transaction: nothing is left of a change that a later statement breaks."""
    message = take_order()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE message ADD CONSTRAINT broken CHECK (state <> 'TBDL')")
    with pytest.raises(DatabaseError, match="broken"):
        patch([message])
    assert (Message.objects.get(id=message).state, held(message)) == ("NDLV", ORDER)
    assert not PayloadVersion.objects.exists()
    assert not History.objects.filter(event="patched").exists()
