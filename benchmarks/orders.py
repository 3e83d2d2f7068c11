"""The messages of the benchmarks with handlers: orders of about 1 kB, some of which kill whoever handles them."""

import json
from collections.abc import Sequence

from django.db import connection

from benchmarks import loads
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy

KILLERS = (
    "kill SIGKILL", "kill SIGTERM", "segfault", "abort", "_exit 0", "_exit 3", "exit 4", "overflow", "allocate 400",
    "spin", "deaf", "fork_and_die",
)  # fmt: skip
LIMITS = {"memory_mb": 128, "cpu_seconds": 0.5, "timeout_ms": 1000}
_ROWS = 2_000

_WRITE = """
WITH fresh AS (SELECT * FROM unnest(%s::bigint[], %s::bytea[]) AS f (id, payload)), sized AS (
    UPDATE envelope SET payload_bytes = length(fresh.payload), content_type = 'application/json' FROM fresh
    WHERE envelope.id = fresh.id
)
UPDATE body SET payload = fresh.payload FROM fresh WHERE body.id = fresh.id
"""
_DECIDED = """
SELECT count(*) FILTER (WHERE state = 'DLVD'), count(*) FILTER (WHERE state = 'NDLV' AND reason = 'blacklisted'),
       coalesce(extract(epoch FROM max(state_at) FILTER (WHERE state = 'DLVD')), 0)::float8
FROM message
"""
# Each delivered message has one attempt, each blacklisted one two crashes, and there is nothing else.
_ATTEMPTS = """
SELECT state, outcomes, count(*) FROM (
    SELECT message.state, array_agg(outcome ORDER BY attempt.attempt_number) AS outcomes
    FROM message LEFT JOIN attempt ON message_id = message.id GROUP BY message.id
) AS each GROUP BY 1, 2 ORDER BY 1, 2
"""


def order(deed: str = "") -> bytes:
    """Return an order of about 1 kB."""
    lines = [{"article": f"A-{number:05d}", "quantity": number, "price": 100 + number} for number in range(1, 19)]
    total = sum(line["quantity"] * line["price"] for line in lines)  # type: ignore[operator]
    return json.dumps({"deed": deed, "customer": "C-1", "lines": lines, "total": total}).encode()


def deeds(count: int, killers: int, kinds: Sequence[str] = KILLERS) -> list[str]:
    """Return what `count` messages do: killers of all kinds evenly among them."""
    found = [""] * count
    for index in range(killers):
        found[index * (count // killers) + 7] = kinds[index % len(kinds)]
    return found


def handle_with(name: str, function: str, **config: object) -> None:
    """Have the addresses below `name` handled by the function; nothing waits between two tries."""
    wanted = LIMITS | {"callable": function, "concurrency": 2} | config
    save_destination(name, kind="handler", config=wanted, secrets=None, max_rate_per_second=None, principal=SYSTEM)
    settings = {"redelivery_delay": 0}
    save_policy(f"{name}.#", preset=None, settings=settings, destination=name, principal=SYSTEM)


def fill(address: str, bodies: Sequence[bytes], *, begin: float) -> None:
    """Put a message with each of these bodies on the address, due at `begin`."""
    loads.empty()
    loads.fill(address, len(bodies), begin=begin)
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM message ORDER BY id")
        ids = [row[0] for row in cursor.fetchall()]
        for start in range(0, len(ids), _ROWS):
            cursor.execute(_WRITE, [ids[start : start + _ROWS], list(bodies[start : start + _ROWS])])
    loads.settle_down()


def decided() -> tuple[int, int, float]:
    """Return how many are delivered, how many blacklisted, and when the last one was delivered (Unix seconds)."""
    with connection.cursor() as cursor:
        cursor.execute(_DECIDED)
        delivered, blacklisted, at = cursor.fetchone()
    return delivered, blacklisted, at


def check_attempts(delivered: int, blacklisted: int) -> None:
    """Fail unless each delivered message has one attempt, and each blacklisted one exactly two crashes."""
    expected = [("DLVD", ["delivered"], delivered), ("NDLV", ["crashed", "crashed"], blacklisted)]
    with connection.cursor() as cursor:
        cursor.execute(_ATTEMPTS)
        found = cursor.fetchall()
    assert found == [row for row in expected if row[2]], found
