"""What became of what was returned: through a real broker and a real failing consumer, again and again."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.intake.domain.draining import Drained
from poisonadmin.policies.commands import save_policy
from poisonadmin.sources.commands.draining import Drainer, drain_due
from poisonadmin.store.models.attempt import Attempt, FailureGroup
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Body, Hop, Message
from tests.brokers.messages import Sent
from tests.brokers.rabbitmq_queues import ClassicQueues
from tests.faults.invariants import all_broken
from tests.fixtures.decisions import approve
from tests.messages.overlap import rows
from workers.brokers.contract import Outgoing, Shard, adapter
from workers.brokers.drain import drain_shard
from workers.brokers.sources import depth_of

pytestmark = pytest.mark.django_db(transaction=True)

RUNS_WITH = ("rabbitmq classic", "rabbitmq quorum")
COUNT = 60
CONFIRM_SECONDS = 60.0


class ReturnLoop:
    """A queue, its dead-letter queue, a source that drains it, and a destination that gives back."""

    def __init__(self, queues: ClassicQueues, messages: Sequence[Sent], database_url: str) -> None:
        self.queues = queues
        self.original, self.dead = queues.dead_letter(messages)
        self._database_url = database_url
        login = queues.login(self.dead)
        self.source = Source.objects.create(
            name="rabbit",
            kind="rabbitmq",
            config={"url": login.url, "queues": [self.dead]},
            secrets={"username": "guest", "password": "guest"},
        )
        config = {"url": login.url, "confirm_within_ms": 3_600_000, "concurrency": 1}
        self.destination = Destination.objects.create(name="rabbit", kind="rabbitmq", config=config)
        save_policy("#", preset=None, settings={}, destination="rabbit", principal=SYSTEM)

    def drain(self) -> dict[str, int]:
        """Drain once as the tick does; return the source's counts."""
        drain_due(Drainer(partial(depth_of, self._database_url), self._drain_shard, "tests"))
        self.source.refresh_from_db()
        assert (self.source.failures, self.source.lag) == (0, 0), self.source.last_error
        return {name: getattr(self.source, name) for name in ("accepted", "duplicates", "returned", "rejected")}

    def _drain_shard(self, source_id: int, _is_stopping: Any) -> Drained:
        try:
            return drain_shard(self._database_url, source_id, Shard(self.dead), idle_seconds=0.3)
        finally:
            connections.close_all()

    def give_back(self) -> None:
        """Approve all, publish as the delivery does, and settle."""
        ids = list(Message.objects.filter(state="NDLV").order_by("id").values_list("id", flat=True))
        approve(ids, principal=SYSTEM, reason="repaired")
        while claim_due(tasks=1):
            under_way = list(Message.objects.filter(state="DLNG").order_by("id"))
            bodies = Body.objects.in_bulk([one.id for one in under_way])
            publisher = adapter("rabbitmq").open_publisher(self.queues.login(self.dead))
            batch = [self._outgoing(one, bodies[one.id]) for one in under_way]
            assert publisher.publish(batch, CONFIRM_SECONDS) == [None] * len(batch)
            publisher.close()
            with connection.cursor() as cursor:
                cursor.execute(
                    """INSERT INTO attempt (message_id, attempt_number, claim_id, destination_id, outcome, finished_at)
                       SELECT id, attempt_number, claim_id, %s, 'delivered', now() FROM message WHERE state = 'DLNG'""",
                    [self.destination.id],
                )
            settle()

    def _outgoing(self, message: Message, body: Body) -> Outgoing:
        transport = json.loads(bytes(body.transport or b"null"))
        mark = {"PoisonAdmin-Message-Id": str(message.id), "PoisonAdmin-Attempt": str(message.attempt_number)}
        payload, headers = bytes(body.payload), json.loads(bytes(body.headers))
        return Outgoing(payload, "text/plain", headers, mark, self.original, str(message.id), None, transport)


def sent(count: int = COUNT, *, with_ids: bool) -> list[Sent]:
    """Return messages, every one of which is another."""
    return [Sent(b"order %d" % n, f"o-{n}" if with_ids else None, {"tenant": "eu", "n": n}) for n in range(count)]


@pytest.mark.parametrize("with_ids", [True, False], ids=["with ids", "without"])
def test_what_dies_again_is_opened_again_and_what_is_then_processed_is_whole(
    queues: ClassicQueues, test_database_url: str, with_ids: bool
) -> None:
    loop = ReturnLoop(queues, sent(with_ids=with_ids), test_database_url)
    assert loop.drain() == {"accepted": COUNT, "duplicates": 0, "returned": 0, "rejected": 0}
    for time in (1, 2):
        loop.give_back()
        assert set(Message.objects.values_list("state", flat=True)) == {"DLVD"}
        queues.reject(loop.original, COUNT)
        assert loop.drain() == {"accepted": COUNT, "duplicates": 0, "returned": COUNT * time, "rejected": 0}
        assert set(Message.objects.values_list("state", "reason")) == {("NDLV", "returned")}
    assert Attempt.objects.filter(outcome="returned").count() == COUNT * 2
    assert FailureGroup.objects.get().failures == COUNT * 3
    first = Message.objects.earliest("id")
    moves = Hop.objects.filter(message_id=first.id).order_by("id")
    assert [(one.from_address, one.to_address, one.reason, one.times, one.by) for one in moves] == [
        (loop.original, loop.dead, "rejected", 1, "rabbitmq")
    ] * 3
    loop.give_back()
    assert get_message(first.id, principal=SYSTEM).delivered_to == "broker"
    received = queues.receive(loop.original, COUNT)
    assert [(one.payload, one.message_id, one.headers["tenant"], one.headers["n"]) for one in received] == [
        (one.payload, one.message_id, "eu", one.headers["n"]) for one in sent(with_ids=with_ids)
    ]
    assert {one.headers["PoisonAdmin-Attempt"] for one in received} == {"3"}
    assert queues.depth(loop.dead) == 0
    assert loop.drain()["duplicates"] == 0
    assert all_broken(rows) == []


def test_a_message_that_dies_elsewhere_meanwhile_is_one_message(queues: ClassicQueues, test_database_url: str) -> None:
    messages = sent(5, with_ids=True)
    loop = ReturnLoop(queues, messages, test_database_url)
    loop.drain()
    # The producer sends the same messages once more, and they die once more.
    queues.publish(loop.original, messages)
    queues.reject(loop.original, 5)
    assert loop.drain() == {"accepted": 5, "duplicates": 5, "returned": 0, "rejected": 0}
    assert all_broken(rows) == []
