"""An incident in the database: messages with a planted cause, some undecided and the others delivered."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.db import connection

from poisonadmin.comparisons.commands.carry_out import Compare, work
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.store.models.message import Envelope
from tests.fixtures.delivery import claim, make_destination

_ANSWER = """
INSERT INTO attempt (message_id, attempt_number, claim_id, finished_at, outcome, error_class, error_message,
                     fingerprint, title, status_code)
SELECT id, attempt_number, claim_id, now(), CASE WHEN has_failed THEN 'failed' ELSE 'delivered' END,
       CASE WHEN has_failed THEN 'HttpStatusError' END, CASE WHEN has_failed THEN '503' END,
       CASE WHEN has_failed THEN repeat('f', 16) END, CASE WHEN has_failed THEN 'HttpStatusError: 503' END,
       CASE WHEN has_failed THEN 503 END
FROM (SELECT *, id = ANY(%(failing)s) AS has_failed FROM message WHERE id = ANY(%(ids)s)) AS answered
"""
# A node says with its outcomes that it has nothing under way any more.
_TELL = """
INSERT INTO node (name, host, pid, claim_id, shard, lease_until, under_way)
SELECT 'n', 'h', 1, claim_id, shard, now() + interval '60 s', '{}' FROM claim_shard ON CONFLICT DO NOTHING
"""

Fields = Mapping[str, Any]


def compare_due(compare: Compare, *, seconds: float = 60) -> None:
    """Carry out the comparisons that are requested."""
    carry_out(work(compare), worker="tests", seconds=seconds)


def incident(
    failing: int, others: int, fields: Callable[[int, bool], Fields], *, address: str = "orders.eu"
) -> tuple[list[int], list[int]]:
    """Take in messages with the `fields` (of intake) of each number, fail the first ones and deliver the rest.

    Return the ids of both.
    """
    make_destination(max_delivery_attempts=1)
    put = [
        {"address": address, "message_id": f"{address}-{n}", **fields(n, n < failing)} for n in range(failing + others)
    ]
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in put)
    assert accept_stream([lines], principal=SYSTEM).accepted == len(put)
    by_name = dict(Envelope.objects.values_list("message_id", "id"))
    ids = [by_name[one["message_id"]] for one in put]
    claim()
    with connection.cursor() as cursor:
        cursor.execute(_ANSWER, {"ids": ids, "failing": ids[:failing]})
        cursor.execute(_TELL)
    settle()
    return ids[:failing], ids[failing:]
