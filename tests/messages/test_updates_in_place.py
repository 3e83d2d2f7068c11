"""Claiming and delivering rewrite a message on its page: no index names what they change (decision 5)."""

import pytest
from django.db import connection

from poisonadmin.delivery.commands.settle import settle
from tests.fixtures.delivery import answer, claim, enqueue

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("destination")]

_UPDATES = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'message'"


def updates() -> tuple[int, int]:
    """Return how many updates of messages this transaction has made, and how many of those touched no index."""
    with connection.cursor() as cursor:
        cursor.execute(_UPDATES)
        found: tuple[int, int] = cursor.fetchone()
    return found


def test_claiming_and_delivering_touch_no_index() -> None:
    ids = enqueue(8)  # so few that both of their new versions fit into the half of a page that is left free
    before = updates()
    taken = claim()
    answer(ids)
    settle(taken.id)
    after = updates()
    assert after[0] - before[0] == 16
    assert after[1] - before[1] == 16
