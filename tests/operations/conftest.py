"""A destination, a policy that uses it, and messages to deliver."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from django.db import connection

from poisonadmin.domain.access import SYSTEM
from poisonadmin.domain.envelope import parse_envelope
from poisonadmin.operations.claim import ClaimRef, claim_due
from poisonadmin.operations.configure import save_destination, save_policy
from poisonadmin.operations.intake import accept
from poisonadmin.store.models import Message

Enqueue = Callable[..., list[int]]
Answer = Callable[..., None]


@pytest.fixture
def shop(db: None) -> str:
    """Return the name of a destination to which `orders.#` delivers, with no wait between attempts and three in all."""
    return make_shop()


def make_shop(**settings: object) -> str:
    """Create the destination and the policy of the `shop` fixture, with other settings where given."""
    save_destination(
        "shop",
        kind="http",
        config={"url": "http://127.0.0.1:9/", "concurrency": 500},
        secrets=None,
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    defaults: dict[str, object] = {
        "redelivery_delay": 0,
        "redelivery_collision_avoidance_factor": 0,
        "max_delivery_attempts": 3,
    }
    save_policy("orders.#", preset=None, settings=defaults | settings, destination="shop", principal=SYSTEM)
    return "shop"


@pytest.fixture
def handler(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a handler destination to which `orders.#` delivers, with no wait between attempts."""
    (tmp_path / "shop.py").write_text("def handle(message): ...\n")
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    return make_handler()


def make_handler(**settings: object) -> str:
    """Create the destination and the policy of the `handler` fixture, with other settings where given."""
    save_destination(
        "handler",
        kind="handler",
        config={"callable": "shop:handle", "concurrency": 64},
        secrets=None,
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    defaults: dict[str, object] = {"redelivery_delay": 0, "max_delivery_attempts": 3}
    save_policy("orders.#", preset=None, settings=defaults | settings, destination="handler", principal=SYSTEM)
    return "handler"


def enqueue(count: int = 1, address: str = "orders.eu", **fields: object) -> list[int]:
    """Take in `count` messages and return their ids."""
    return [
        accept(
            parse_envelope({"address": address, "payload": f"body {n}", **fields}), principal=SYSTEM, received_by="test"
        ).id
        for n in range(count)
    ]


def claim(tasks: int = 1, limit: int = 10_000) -> ClaimRef:
    """Claim what is due; fail when nothing is."""
    taken = claim_due(tasks=tasks, limit=limit)
    assert taken is not None, "nothing was claimed"
    return taken


def answer(ids: Iterable[int], outcome: str = "delivered", **columns: object) -> None:
    """Write, as a node would, the outcome of the current attempt of each message."""
    for message in Message.objects.filter(id__in=list(ids)):
        values = {
            "message_id": message.id,
            "attempt_number": message.attempt_number,
            "claim_id": message.claim_id,
            "outcome": outcome,
        }
        if outcome == "failed":
            values |= {
                "error_class": "HttpStatusError",
                "error_message": "503 Service Unavailable",
                "fingerprint": "f" * 16,
                "title": "HttpStatusError: 503",
            }
        values |= columns
        names = ", ".join(values)
        marks = ", ".join(["%s"] * len(values))
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO attempt (finished_at, {names}) VALUES (now(), {marks})", list(values.values()))


def end_nodes(taken: ClaimRef, end: str = "clean", unanswered: Iterable[int] = ()) -> None:
    """Write, as the tasks of a claim would, that each of its shards was taken and has ended."""
    for shard in taken.shards:
        with connection.cursor() as cursor:
            cursor.execute(
                'INSERT INTO node (name, host, pid, claim_id, shard, lease_until, ended_at, "end", unanswered)'
                " VALUES ('n', 'h', 1, %s, %s, now(), now(), %s, %s)",
                [taken.id, shard, end, list(unanswered)],
            )


def states(ids: Iterable[int]) -> list[str]:
    """Return the state of each message, in the order given."""
    found = dict(Message.objects.filter(id__in=list(ids)).values_list("id", "state"))
    return [found[message_id] for message_id in ids]


def counted() -> dict[tuple[int, str, str | None, int | None], int]:
    """Return the exact counts by address, state, reason and group as a full count gives them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT address_id, state, reason, group_id, count(*) FROM message GROUP BY 1, 2, 3, 4")
        return {tuple(row[:4]): row[4] for row in cursor.fetchall()}


def counters() -> dict[tuple[int, str, str | None, int | None], int]:
    """Return the same counts as the counters and their unfolded deltas give them, zeros left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT address_id, state, reason, group_id, sum(n) FROM (
                   SELECT address_id, state, reason, group_id, total AS n FROM counter
                   UNION ALL SELECT address_id, state, reason, group_id, delta FROM counter_delta) AS both_parts
               GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0"""
        )
        return {tuple(row[:4]): int(row[4]) for row in cursor.fetchall()}
