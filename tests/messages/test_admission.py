"""Messages that may not wait for a delivery: listed bookmarks, messages of ended conversations (R6, R7)."""

import io
import json

import psycopg
import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Conversation
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.poison import PoisonEntry
from tests.fixtures.decisions import approve, quarantine
from tests.fixtures.delivery import answer, claim, counted, counters, end_nodes, enqueue, make_destination, states
from workers.delivery.claimed import read_claimed

WHY = {"principal": SYSTEM, "reason": "looked at it"}
BOOKMARK, CONVERSATION = {"bookmark": "B1"}, {"conversation_id": "c-1"}


@pytest.fixture
def shop(db: None) -> None:
    """Deliver `orders.#`, and end a conversation with its first failure."""
    make_destination(max_delivery_attempts=-1, conversation_failure_limit=1)


def exclude(what: dict[str, str]) -> None:
    """List the bookmark, or end the conversation, behind the back of what waits."""
    if what is BOOKMARK:
        PoisonEntry.objects.create(
            source="orders.eu", bookmark="B1", why="no", is_listed=True, change=1, reported_by="a test"
        )
    else:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO conversation (address_id, conversation_id, ended_at)"
                " SELECT id, 'c-1', now() FROM address WHERE name = 'orders.eu'"
            )


def reasons(ids: list[int]) -> list[str | None]:
    found = dict(Message.objects.filter(id__in=ids).values_list("id", "reason"))
    return [found[one] for one in ids]


REASONS = [(BOOKMARK, "listed"), (CONVERSATION, "conversation_ended")]


@pytest.mark.conformance("AMPS-g", "SSB-k", "R6", "R7")
@pytest.mark.parametrize(("what", "reason"), REASONS)
def test_what_arrives_is_stopped_and_the_rest_is_not(shop: None, what: dict[str, str], reason: str) -> None:
    enqueue()
    exclude(what)
    stopped, other, elsewhere = enqueue(**what) + enqueue() + enqueue(address="orders.us", **what)
    assert states([stopped, other, elsewhere]) == ["NDLV", "TBDL", "TBDL"]
    assert reasons([stopped]) == [reason]
    assert counted() == counters()


@pytest.mark.conformance("AMPS-g", "SSB-k")
@pytest.mark.parametrize(("what", "reason"), REASONS)
def test_a_batch_is_stopped_line_by_line(shop: None, what: dict[str, str], reason: str) -> None:
    enqueue()
    exclude(what)
    lines = [{"address": "orders.eu", "payload": "x", **(what if n == 1 else {})} for n in range(3)]
    accept_stream(io.BytesIO("\n".join(map(json.dumps, lines)).encode()), principal=SYSTEM, received_by="a test")
    assert sorted(Message.objects.values_list("state", flat=True)) == ["NDLV", "TBDL", "TBDL", "TBDL"]
    assert Message.objects.get(state="NDLV").reason == reason
    assert counted() == counters()


@pytest.mark.conformance("AMPS-h", "SSB-k")
@pytest.mark.parametrize(("what", "reason"), REASONS)
def test_what_slipped_through_is_not_read_by_its_task_and_is_stopped_when_it_comes_back(
    shop: None, what: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, other = enqueue(**what) + enqueue()
    exclude(what)
    taken = claim()
    session = connection.connection
    monkeypatch.setattr(session, "cursor_factory", psycopg.Cursor)  # a task has a session of its own, not Django's
    assert [one.message_id for one in read_claimed(session, taken.id, taken.shards[0])] == [other]
    answer([other])
    end_nodes(taken)
    settle()
    assert states([stopped, other]) == ["NDLV", "DLVD"]
    assert reasons([stopped]) == [reason]
    assert counted() == counters()


@pytest.mark.conformance("SSB-k", "R6")
def test_what_came_to_an_ordered_conversation_while_it_ended_is_not_held_for_ever(db: None) -> None:
    make_destination(ordered=True)
    [sibling] = enqueue(**CONVERSATION)
    quarantine([sibling], **WHY)
    [message] = enqueue(**CONVERSATION)
    exclude(CONVERSATION)
    assert claim_due(tasks=1) is None
    assert (states([message]), reasons([message])) == (["NDLV"], ["conversation_ended"])


@pytest.mark.conformance("AMPS-h")
@pytest.mark.parametrize(("what", "reason"), REASONS)
def test_what_was_under_way_is_stopped_when_it_fails(shop: None, what: dict[str, str], reason: str) -> None:
    [message] = enqueue(**what)
    claim()
    exclude(what)
    answer([message], "rolled_back")
    settle()
    assert (states([message]), reasons([message])) == (["NDLV"], [reason])


@pytest.mark.conformance("R6", "R7")
@pytest.mark.parametrize("what", [BOOKMARK, CONVERSATION])
def test_an_approval_lets_it_and_what_comes_later_be_delivered(shop: None, what: dict[str, str]) -> None:
    enqueue()
    exclude(what)
    [message] = enqueue(**what)
    assert approve([message], **WHY).changed == (message,)
    [later] = enqueue(**what)
    assert states([message, later]) == ["TBDL", "TBDL"]
    claim()
    answer([message, later])
    settle()
    assert states([message, later]) == ["DLVD", "DLVD"]


@pytest.mark.conformance("AMPS-h", "R7")
def test_a_report_stops_everything_of_that_bookmark_that_waits(shop: None) -> None:
    first, second = enqueue(**BOOKMARK) + enqueue(**BOOKMARK)
    report(Report("orders.eu", "B1", "it cannot be read"), principal=SYSTEM)
    assert states([first, second]) == ["NDLV", "NDLV"]


def test_a_delivery_of_an_ended_conversation_does_not_reopen_it(shop: None) -> None:
    [message] = enqueue(**CONVERSATION)
    claim()
    exclude(CONVERSATION)
    answer([message])
    settle()
    assert states([message]) == ["DLVD"]
    assert Conversation.objects.get().ended_at is not None


@pytest.mark.conformance("R6")
def test_the_history_says_why(shop: None) -> None:
    enqueue()
    exclude(CONVERSATION)
    [message] = enqueue(**CONVERSATION)
    last = History.objects.filter(message_id=message).order_by("-seq")[0]
    assert (last.event, last.to_state, last.note) == ("conversation_ended", "NDLV", "its conversation has ended")
