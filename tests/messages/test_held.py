"""What waits behind a parked message of its ordered conversation is held, everywhere (R17)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from poisonadmin.alerts.queries.conditions import Watched, overdue_deliveries
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.recovery import recover
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.schedule import schedule
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.message import Message
from poisonadmin.system.queries.overview import system_metrics
from tests.fixtures.api import Caller
from tests.fixtures.decisions import approve, quarantine
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue, make_destination, states

WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "r"}


@pytest.fixture
def conversation(db: None) -> list[int]:
    """Return a parked head and its twenty successors, which have been due for a minute."""
    make_destination(ordered=True, max_delivery_attempts=1)
    ids = enqueue(21, conversation_id="c-1")
    taken = claim()
    answer(ids[:1], "failed")
    end_nodes(taken)
    settle()
    assert claim_due(tasks=1) is None
    late(ids)
    assert states(ids) == ["NDLV", *["TBDL"] * 20]
    return ids


def late(ids: list[int]) -> None:
    """Have them be due for a minute, as time does."""
    Message.objects.filter(id__in=ids, state="TBDL").update(due_at="2026-01-01T00:00:00Z")


def found(**words: str) -> list[int]:
    """Return what the list of messages holds, oldest first."""
    filtered = parse_filter({name: [text] for name, text in words.items()})
    return [row.id for row in list_messages(filtered, principal=SYSTEM, limit=100, ordering="id").results]


@pytest.mark.conformance("R17")
def test_behind_a_parked_head_nothing_is_due_or_overdue_but_held(conversation: list[int]) -> None:
    measured = system_metrics()
    assert (measured.due, measured.overdue, measured.held, measured.oldest_due_seconds) == (0, 0, 20, 0)
    assert overdue_deliveries(Watched(None, timedelta(seconds=5))) == []
    assert found(held="true") == conversation[1:]
    assert found(state="TBDL") == conversation[1:]
    assert found(held="false") == conversation[:1]


def test_what_is_approved_lets_them_be_due(conversation: list[int]) -> None:
    approve(conversation[:1], **WHY)
    assert claim_due(tasks=1, limit=1) is not None
    assert system_metrics().held == 0
    assert found(held="true") == []


def test_behind_a_head_that_a_paused_operation_holds_they_are_held_too(conversation: list[int]) -> None:
    operation = begin(
        freeze(ids=conversation[:1], principal=SYSTEM), OperationAction.APPROVE, terms=OperationTerms(Pace(1)), **WHY
    )
    change(operation, OperationChange.PAUSE, **WHY)
    assert claim_due(tasks=1) is None
    recover()
    assert (states(conversation[:1]), system_metrics().due) == (["TBDL"], 0)
    assert system_metrics().held == 21
    assert len(found(held="true")) == 21
    change(operation, OperationChange.RESUME, **WHY)
    recover()
    assert system_metrics().held == 0


def test_before_a_worker_has_looked_they_are_held_too(db: None) -> None:
    make_destination(ordered=True)
    ids = enqueue(5, conversation_id="c-1")
    quarantine(ids[2:3], **WHY)
    counted = system_metrics()
    assert (counted.due, counted.held) == (2, 2)
    assert found(held="true") == ids[3:]


def test_each_message_says_what_holds_it(conversation: list[int], admin: Caller, operator_browser: Client) -> None:
    head, first = conversation[:2]
    assert admin.get(f"messages/{first}/").json()["predecessor_id"] == str(head)
    assert admin.get(f"messages/{head}/").json()["predecessor_id"] is None
    assert [one["predecessor_id"] for one in admin.get("messages/?held=true").json()["results"]] == [str(head)] * 20
    explained = schedule(first, principal=SYSTEM)
    assert explained.due_at is None
    assert explained.sentence is not None
    assert explained.sentence.endswith(f"held behind message {head}, which waits for a decision")
    page = operator_browser.get(f"{reverse('triage')}?state=TBDL").content.decode()
    assert page.count("held behind") == 20
    assert "data-due" not in page


@pytest.mark.conformance("OP-h", "R17")
def test_op_h_a_selection_releases_what_it_holds_itself_and_nothing_else(conversation: list[int]) -> None:
    quarantine(conversation[1:], **WHY)
    for ids, accepted in ((conversation[1:], 0), (conversation, 21)):
        selection = get_selection(freeze(ids=ids, principal=SYSTEM), principal=SYSTEM)
        foreseen = preview(selection, OperationAction.APPROVE, principal=SYSTEM)
        held = [(one.code, one.count) for one in foreseen.refused]
        assert (foreseen.accepted, held) == (accepted, [] if accepted else [("held_by_predecessor", 20)])
        ledger = get_operation(begin(selection.id, OperationAction.APPROVE, **WHY), principal=SYSTEM).ledger
        assert (ledger.unanswered, ledger.skipped) == (accepted, 20 - min(accepted, 20))
    assert states(conversation) == ["TBDL"] * 21


def test_what_waits_behind_a_parked_head_is_not_made_due(conversation: list[int]) -> None:
    selection = get_selection(freeze(ids=conversation, principal=SYSTEM), principal=SYSTEM)
    foreseen = preview(selection, OperationAction.DELIVER_NOW, principal=SYSTEM)
    assert {one.code: one.count for one in foreseen.refused} == {"held_by_predecessor": 20, "NDLV": 1}
    assert foreseen.accepted == 0
    begin(selection.id, OperationAction.DELIVER_NOW, **WHY)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM history WHERE event = 'deliver_now'")
        assert cursor.fetchone() == (0,)


def test_a_members_row_that_is_archived_is_counted(conversation: list[int]) -> None:
    selection = get_selection(freeze(ids=conversation, principal=SYSTEM), principal=SYSTEM)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM message WHERE id = %s", [conversation[0]])
    foreseen = preview(selection, OperationAction.FAIL, principal=SYSTEM)
    assert {one.code: one.count for one in foreseen.refused} == {"TBDL": 20, "not_found": 1}
    assert foreseen.accepted + sum(one.count for one in foreseen.refused) == foreseen.count == 21
