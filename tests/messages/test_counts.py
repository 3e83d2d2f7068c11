"""Counters, histories and lanes after any mix of what may happen to messages."""

from datetime import UTC, datetime, timedelta

import pgtrigger
import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.recovery import recover
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.commands.admission import expire_due
from poisonadmin.messages.commands.counts import fold
from poisonadmin.store.models.message import Message
from tests.faults.invariants import all_broken
from tests.fixtures import decisions
from tests.fixtures.delivery import answer, end_nodes, enqueue, make_destination
from tests.messages.overlap import rows

pytestmark = pytest.mark.django_db

TABLES = (
    *("message", "envelope", "body", "attempt", "history", "hop", "counter", "counter_delta"),
    *("claim", "claim_shard", "node", "failure_group"),
)
DECISIONS = (
    decisions.approve,
    decisions.mark_fail,
    decisions.quarantine,
    decisions.restore,
    decisions.deliver_now,
    decisions.return_to_original,
)
STEPS = ("enqueue", "import", "late", "claim", "deliver", "fail", "lose", "decide", "postpone", "expire", "fold")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_after_any_mix_of_events_counters_histories_and_lanes_are_right(db: None, data: st.DataObject) -> None:
    with pgtrigger.ignore("store.History:never_emptied"), connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(TABLES)}")
    make_destination(
        max_delivery_attempts=2, dead_letter_address=data.draw(st.sampled_from(["dead", "orders.dead", None]))
    )
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=5, max_size=25)):
        _take(step, data)
    assert all_broken(rows) == []
    fold()
    assert all_broken(rows) == []


def _take(step: str, data: st.DataObject) -> None:
    if step == "enqueue":
        enqueue(data.draw(st.integers(1, 4)), address=data.draw(st.sampled_from(["orders.eu", "orders.us", "nowhere"])))
    elif step == "import":
        enqueue(address="parking", dead_letter={"reason": "x", "original_address": "orders.eu"})
    elif step == "late":
        enqueue(expires_at="2020-01-01T00:00:00Z")
    elif step == "claim":
        claim_due(tasks=2, limit=data.draw(st.integers(1, 5)))
    elif step in {"deliver", "fail"}:
        answer(_some(data, state="DLNG"), "delivered" if step == "deliver" else "failed")
        settle()
    elif step == "lose":
        taken = claim_due(tasks=2)
        if taken is not None:
            end_nodes(taken, data.draw(st.sampled_from(["lost", "clean"])))
        recover()
    elif step == "decide":
        data.draw(st.sampled_from(DECISIONS))(_some(data), principal=SYSTEM, reason="x")
    elif step == "postpone":
        until = datetime.now(UTC) + timedelta(seconds=data.draw(st.sampled_from([-60, 60])))
        decisions.postpone(_some(data), until=until, principal=SYSTEM, reason="x")
    elif step == "expire":
        expire_due()
    else:
        fold()


def _some(data: st.DataObject, **where: str) -> list[int]:
    """Return some of the messages, none of those that are answered already."""
    ids = list(Message.objects.filter(**where).order_by("id").values_list("id", flat=True))
    return data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=5)) if ids else []
