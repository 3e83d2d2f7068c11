"""What is cleaned up after a week, and what a crash keeps for as long as its message is there."""

import pytest
from django.db import connection

from poisonadmin.store.models.claim import Claim, ClaimShard, Node
from poisonadmin.system.commands.housekeeping import clean_up
from tests import crashes
from tests.fixtures.delivery import enqueue

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("destination")]


def make_old() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE node SET ended_at = ended_at - interval '8 days'")
        cursor.execute("UPDATE claim SET claimed_at = claimed_at - interval '8 days'")


def test_what_delivered_is_forgotten_after_a_week() -> None:
    ids = enqueue(2)
    delivery = crashes.take(ids)
    crashes.deliver(delivery, *ids)
    crashes.end(delivery)
    clean_up()
    assert Node.objects.count() == 1
    make_old()
    clean_up()
    assert (Node.objects.count(), Claim.objects.count(), ClaimShard.objects.count()) == (0, 0, 0)


def test_what_crashed_keeps_its_node_and_who_was_there() -> None:
    ids = enqueue(3)
    crashes.blacklist(*ids)
    make_old()
    clean_up()
    assert (Node.objects.count(), Claim.objects.count(), ClaimShard.objects.count()) == (2, 2, 2)


def test_a_silent_worker_is_forgotten_when_another_one_of_its_kind_takes_ticks() -> None:
    silences = {"io@gone": "2 hours", "io@here": "1 s", "io@late": "10 minutes", "spark-batch@gone": "3 days"}
    with connection.cursor() as cursor:
        for name, silence in silences.items():
            cursor.execute(
                "INSERT INTO worker (name, host, pid, heartbeat_at) VALUES (%s, '', 1, now() - %s::interval)",
                [name, silence],
            )
        clean_up()
        cursor.execute("SELECT name FROM worker ORDER BY name")
        assert [name for (name,) in cursor.fetchall()] == ["io@here", "io@late", "spark-batch@gone"]
