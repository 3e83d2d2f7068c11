"""Rules after failures: what they make of a decision."""

from typing import Any

import pytest
from django.db import connection

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.failure_group import Annotation
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.rule import Rule
from tests.fixtures.delivery import answer, claim, counted, counters, enqueue, states
from tests.messages.test_oversize import last
from tests.rules.ruled import rule

FAILED: dict[str, Any] = {"error_class": "HandlerError", "cause_class": "DeadlockDetected", "status_code": 503}


@pytest.mark.parametrize(
    ("action", "state", "reason", "event"),
    [
        ({"do": "retry", "delay_ms": 3_600_000}, "TBDL", None, "failed"),
        ({"do": "park"}, "NDLV", "rule", "failed"),
        ({"do": "fail"}, "FAIL", "discarded_by_policy", "failed"),
        ({"do": "redirect", "address": "orders.slow"}, "TBDL", None, "moved"),
        ({"do": "end_conversation"}, "FAIL", "conversation_ended", "failed"),
    ],
)
def test_a_failure_rule_overrides_the_policy(
    destination: str, action: dict[str, Any], state: str, reason: str | None, event: str
) -> None:
    row = rule("deadlocks", {"exception_class": "Deadlock*", "destination": "sh*"}, action, stage="after")
    [hit], [missed] = enqueue(conversation_id="c"), enqueue(conversation_id="another")
    taken = claim()
    answer([hit], "failed", destination_id=destination_id(), **FAILED)
    settle()
    message = Message.objects.get(id=hit)
    assert last(hit) == (event, state, reason, f"rule deadlocks: {action['do']}")
    assert message.failure_count == (0 if event == "moved" else 1)
    assert message.group is not None, "it is a failure all the same"
    if action["do"] == "retry":
        with connection.cursor() as cursor:
            cursor.execute("SELECT due_at - state_at = interval '1 hour' FROM message WHERE id = %s", [hit])
            assert cursor.fetchone()[0]
    answer([missed], "failed", destination_id=destination_id())
    settle(taken.id)
    assert last(missed)[3] is None
    row.refresh_from_db()
    assert row.hits == 1
    assert counters() == counted()


def destination_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM destination")
        found: int = cursor.fetchone()[0]
    return found


def test_a_failure_rule_may_ask_for_tags_and_counts(destination: str) -> None:
    rule("odd ones", {"tags": ["odd"], "failures": {"min": 2}}, "park", stage="after")
    odd, plain = enqueue(2)
    Annotation.objects.create(message_id=odd, tags=["large", "odd"])
    for expected in ("TBDL", "NDLV"):
        claim()
        answer([odd, plain], "failed")
        settle()
        assert states([odd, plain]) == [expected, "TBDL"]


@pytest.mark.parametrize("broken", [{"status_code": {"min": "many"}}, {"size": {"min": 1}}, {"message": 4}])
def test_a_broken_failure_rule_switches_itself_off_and_stops_no_decision(
    destination: str, broken: dict[str, Any]
) -> None:
    row = rule("broken", {}, "fail", stage="after")
    Rule.objects.filter(id=row.id).update(match=broken)
    rule("next", {}, "park", stage="after")
    [message] = enqueue()
    claim()
    answer([message], "failed", status_code=503)
    settle()
    assert last(message) == ("failed", "NDLV", "rule", "rule next: park")
    row.refresh_from_db()
    assert not row.is_enabled
    assert "cannot be compiled" in str(row.fault)
    assert Audit.objects.filter(action="rule.switched_off", object_id="broken").count() == 1


def test_a_crash_is_no_rule_s_business(destination: str) -> None:
    rule("everything", {}, "fail", stage="after")
    [message] = enqueue()
    claim()
    answer([message], "crashed", error_class="HandlerKilled", fingerprint="c" * 16, title="x")
    settle()
    assert last(message)[:2] == ("crashed", "TBDL")
