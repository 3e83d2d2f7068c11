"""The blacklist's queries: their order, what they count, and that a long list costs no more than a short one."""

from collections.abc import Callable

import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries import blacklist
from poisonadmin.search.queries.blacklist import others_on
from poisonadmin.store.models.message import Message
from poisonadmin.system.queries import nodes
from tests import crashes
from tests.fixtures.delivery import enqueue, make_destination

pytestmark = pytest.mark.django_db

_MANY = """
INSERT INTO message (address_id, lane_id, state, reason, candidate, state_at)
SELECT address_id, lane_id, CASE WHEN n % 2 = 0 THEN 'NDLV' ELSE 'DLVD' END,
       CASE WHEN n % 2 = 0 THEN 'blacklisted' END, n % 2 = 0, now() - n * interval '1 s'
FROM message, generate_series(1, 40000) n WHERE message.id = (SELECT max(id) FROM message)
"""


@pytest.fixture(autouse=True)
def _shop(db: None) -> None:
    make_destination()


def blacklisted() -> int:
    message_id = enqueue()[0]
    crashes.blacklist(message_id)
    return message_id


def test_the_latest_comes_first_and_pages_go_on_by_keyset() -> None:
    made = [blacklisted() for _ in range(4)]
    Message.objects.filter(id=made[0]).update(state_at="2036-01-01T00:00:00Z")
    found = blacklist.list_blacklisted(principal=SYSTEM, limit=3)
    assert [row.message.id for row in found.results] == [made[0], made[3], made[2]]
    rest = blacklist.list_blacklisted(principal=SYSTEM, limit=3, cursor=found.next)
    assert [row.message.id for row in rest.results] == [made[1]]
    back = blacklist.list_blacklisted(principal=SYSTEM, limit=3, cursor=rest.previous)
    assert back.results == found.results


LIMITED = principal("kim", Role.VIEWER, ["orders.eu"])
ASKS: dict[str, tuple[Callable[[], object], str]] = {
    "list": (lambda: blacklist.list_blacklisted(principal=SYSTEM), "message_blacklisted"),
    "narrowed": (
        lambda: blacklist.list_blacklisted(parse_filter({"address": ["orders.*"]}), principal=LIMITED),
        "message_blacklisted",
    ),
    "newer": (
        lambda: blacklist.count_newer(principal=SYSTEM, since=Message.objects.latest("state_at").state_at),
        "message_blacklisted",
    ),
    "candidates": (lambda: blacklist.candidates(principal=SYSTEM, limit=10), "message_candidates"),
    "number of candidates": (lambda: blacklist.count_candidates(principal=SYSTEM), "message_candidates"),
    "bystanders": (
        lambda: others_on({(crash.claim_id, 0) for crash in last_crashes()}, principal=SYSTEM),
        "message_pkey",
    ),
    "nodes": (lambda: nodes.list_nodes(principal=SYSTEM), "message_pkey"),
}


def last_crashes() -> list[crashes.Delivery]:
    return list(crashes.blacklist(*enqueue(3)))


def test_a_long_blacklist_is_read_by_its_indexes() -> None:
    blacklisted()
    with connection.cursor() as cursor:
        cursor.execute(_MANY)
        cursor.execute("ANALYZE message")
    for name, (ask, index) in ASKS.items():
        plan = plans_of(ask)
        assert "Seq Scan on message " not in plan, (name, plan)
        assert index in plan, (name, plan)


def plans_of(ask: Callable[[], object]) -> str:
    """Return the plans of the queries over messages that `ask` runs."""
    found: list[str] = []

    def explained(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        if "message m" in sql or "message.id = taken.id" in sql:
            with connection.connection.cursor() as plain:
                plain.execute(f"EXPLAIN {sql}", params)
                found.extend(row[0] for row in plain.fetchall())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explained):
        ask()
    return "\n".join(found)
