"""What the planner makes of the statements that run all the time, when its statistics are older than the claim."""

import pytest
from django.db import connection

from poisonadmin.delivery.commands import retry_decisions, settle
from poisonadmin.delivery.commands.recovery import IN_FLIGHT
from poisonadmin.store.models.claim import Node, OutcomeBatch
from poisonadmin.store.models.message import Message
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue
from workers.delivery import claimed

pytestmark = pytest.mark.django_db

_MANY = """
INSERT INTO message (address_id, lane_id, state, due_at)
SELECT address_id, lane_id, 'TBDL', now() FROM message, generate_series(1, 20000)
"""
_VALUES = {"actor": "system", "note": None, "watched": [], "rules": True}


def plan_of(statement: str, values: object) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}", values)
        return "\n".join(row[0] for row in cursor.fetchall())


def compares_each_with_each(plan: str) -> bool:
    return any("Join Filter" in line and ("taken" in line or "answered" in line) for line in plan.splitlines())


@pytest.fixture
def claim_id(destination: str) -> int:
    """Return a claim of which the planner knows nothing: it was analysed when every message was still TBDL."""
    ids = enqueue()
    with connection.cursor() as cursor:
        cursor.execute(_MANY)
        cursor.execute("ANALYZE message")
    taken = claim()
    answer(ids)
    end_nodes(taken)
    found = Message.objects.exclude(claim_id=None).values_list("claim_id", flat=True)[0]
    assert found is not None
    return found


@pytest.mark.parametrize(
    "statement",
    [settle._DELIVERED, settle._RETURNED, retry_decisions._ANSWERED, f"SELECT FROM {IN_FLIGHT}"],
    ids=["delivered", "returned", "failed", "in flight"],
)
def test_what_is_under_way_is_looked_up_message_by_message(claim_id: int, statement: str) -> None:
    batches = list(OutcomeBatch.objects.filter(claim_id=claim_id).values_list("id", flat=True))
    nodes = list(Node.objects.filter(claim_id=claim_id).values_list("id", flat=True))
    plan = plan_of(statement, _VALUES | {"claim": claim_id, "batches": batches, "nodes": nodes, "ended": nodes})
    assert not compares_each_with_each(plan), plan
    assert "Seq Scan on message " not in plan


def test_what_a_shard_holds_is_looked_up_message_by_message(claim_id: int) -> None:
    plan = plan_of(claimed._CLAIMED, [claim_id, 0])
    assert not compares_each_with_each(plan), plan
