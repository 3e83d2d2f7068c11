"""What a handler answers instead of returning: each is done, and none counts as a failure (R3)."""

import pytest

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.history import History
from poisonadmin.store.models.message import Hop, Message
from tests.fixtures.delivery import answer, claim, counted, counters, enqueue, states


@pytest.mark.parametrize(
    ("outcome", "columns", "expected"),
    [
        ("discarded", {"error_message": "not ours"}, ("FAIL", "discarded_by_policy", "discarded")),
        ("moved", {"move_to": "orders.other"}, ("TBDL", None, "moved")),
        ("rolled_back", {}, ("TBDL", None, "rolled_back")),
        ("conversation_ended", {}, ("DLVD", None, "conversation_ended")),
        ("conversation_ended", {"error_code": 17}, ("FAIL", "conversation_ended", "conversation_ended")),
    ],
)
def test_what_a_handler_answers_is_done(
    handler: str, outcome: str, columns: dict[str, object], expected: tuple[str, str | None, str]
) -> None:
    first, second = enqueue(2, conversation_id="c-1")
    claim(limit=1)
    answer([first], outcome, **columns)
    settle()
    message = Message.objects.get(id=first)
    last = History.objects.filter(message_id=first).order_by("-seq")[0]
    assert (message.state, message.reason, last.event) == expected
    assert message.failure_count == 0
    if outcome == "moved":
        assert message.address.name == "orders.other"
    if outcome == "discarded":
        assert last.note == "not ours"
    parked = ["NDLV"] if outcome == "conversation_ended" else ["TBDL"]
    assert states([second]) == parked
    assert counted() == counters()


def test_a_message_that_handlers_hand_round_ends_with_an_administrator(handler: str) -> None:
    [message] = enqueue()
    for turn in range(3):
        assert states([message]) == ["TBDL"], turn
        claim()
        answer([message], "moved", move_to=f"orders.{'there' if turn % 2 == 0 else 'back'}")
        settle()
    assert Message.objects.get(id=message).reason == "dead_letter_loop"
    assert Hop.objects.filter(message_id=message).count() == 2
