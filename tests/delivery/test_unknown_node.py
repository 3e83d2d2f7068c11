"""A node whose database is another one when it is back: a promoted standby that was behind gives its ids again."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.fixtures.delivery import claim, enqueue, make_destination, states
from tests.messages.overlap import rows
from tests.messages.simulated_tasks import execute
from workers.delivery.node import NodeSession, enter
from workers.delivery.sessions import Sessions

SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'poisonadmin node'"


@pytest.fixture
def node(transactional_db: None, test_database_url: str) -> Iterator[tuple[NodeSession, AttemptRecord]]:
    """Yield a node, and the outcome of its only message, which it has not recorded."""
    make_destination()
    [message] = enqueue()
    taken, now = claim(), datetime.now(UTC)
    place = {"claim_id": taken.id, "shard": taken.shards[0], "destination_id": None}
    outcome = AttemptRecord(
        message_id=message, attempt_number=1, outcome="delivered", started_at=now, finished_at=now, **place
    )
    with Sessions(test_database_url) as sessions:
        entered = enter(sessions, claim_id=taken.id, shard=taken.shards[0], budget_seconds=60)
        assert entered is not None
        yield entered, outcome
        entered.begun.close()


def test_a_node_writes_when_its_database_is_back(node: tuple[NodeSession, AttemptRecord]) -> None:
    entered, outcome = node
    rows(SESSIONS)
    entered.record(outcome)
    assert entered.end(begun=1, unanswered=[])
    settle()
    assert states([outcome.message_id]) == ["DLVD"]


def test_a_node_that_its_database_does_not_know_writes_nothing(node: tuple[NodeSession, AttemptRecord]) -> None:
    entered, outcome = node
    # Another node with the same id: nothing else tells the two apart.
    execute("UPDATE node SET started_at = started_at + interval '1 s'")
    rows(SESSIONS)
    entered.record(outcome)
    assert not entered.end(begun=1, unanswered=[])
    assert entered.stopping.is_set()
    assert entered.written() == 1
    assert rows("SELECT FROM attempt") == []
    assert rows("SELECT ended_at FROM node") == [(None,)]
