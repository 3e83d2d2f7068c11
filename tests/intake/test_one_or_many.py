"""A message is the same in the store whether it came alone or with many."""

import json
from typing import Any

import pytest
from django.db import transaction

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.intake.domain.envelope import parse_line
from tests.intake.store import rows
from tests.intake.test_merge import TOLD

MESSAGES: list[dict[str, Any]] = [
    {"address": "orders.eu", "message_id": "1", "payload": "x"},
    {"address": "orders.eu", "message_id": "2", "payload": {"n": [1, "ü"]}, "headers": {"b": "2", "a": "1"}},
    {"address": "a", "message_id": "3", "payload_base64": "AP8=", "expires_at": "2999-01-01T00:00:00Z"},
    {"address": "a", "message_id": "4", "payload": "", "conversation_id": "c", "bookmark": "k", "content_type": "a/b"},
    {"address": "orders.dlq", "message_id": "5", "payload": "x", "dead_letter": TOLD},
    {
        "address": "orders.eu",
        "message_id": "6",
        "payload": "x",
        "dead_letter": {"original_address": "orders.eu", "failed_at": TOLD["failed_at"]},
    },
    {
        "address": "a",
        "message_id": "7",
        "payload": "x",
        "dead_letter": {"reason": "why", "failed_at": TOLD["failed_at"]},
    },
]

STORED = {
    "messages": """
        SELECT envelope.message_id, here.name, home.name, lane.address_id = message.address_id, state, message.reason,
               due_at IS NULL, message.expires_at, attempt_number, failure_count, failed_at, original.name,
               fingerprint, failures, envelope.conversation_id, bookmark, content_type, payload_bytes,
               envelope.expires_at, received_by, headers, payload
        FROM message JOIN envelope USING (id) JOIN body USING (id) JOIN address AS here ON here.id = message.address_id
             JOIN address AS home ON home.id = intake_address_id JOIN lane ON lane.id = lane_id
             LEFT JOIN address AS original ON original.id = original_address_id
             LEFT JOIN failure_group ON failure_group.id = group_id
        ORDER BY 1""",
    "history": """
        SELECT envelope.message_id, from_state, to_state, event, reason, attempt_number, actor, note
        FROM history JOIN envelope ON envelope.id = history.message_id ORDER BY 1, seq""",
    "attempts": """
        SELECT envelope.message_id, attempt_number, finished_at, outcome, error_class, cause_class, error_message,
               stack, fingerprint, title
        FROM attempt JOIN envelope ON envelope.id = attempt.message_id ORDER BY 1""",
    "hops": """
        SELECT envelope.message_id, from_address, to_address, queue, reason, by, at
        FROM hop JOIN envelope ON envelope.id = hop.message_id ORDER BY 1""",
    "groups": """
        SELECT fingerprint, version, title, error_class, first_at, last_at, failures FROM failure_group ORDER BY 1""",
    "counts": """
        SELECT address.name, state, reason, fingerprint, sum(delta) FROM counter_delta
        JOIN address ON address.id = address_id LEFT JOIN failure_group ON failure_group.id = group_id
        GROUP BY 1, 2, 3, 4 HAVING sum(delta) <> 0 ORDER BY 1, 2, 3, 4""",
    "lanes": "SELECT name, next_due IS NULL, is_open FROM lane JOIN address ON address.id = address_id ORDER BY 1",
}


def stored() -> dict[str, list[tuple[Any, ...]]]:
    return {name: rows(sql) for name, sql in STORED.items()}


@pytest.mark.django_db
def test_a_message_is_stored_alike_alone_and_in_a_batch() -> None:
    raw = [json.dumps(message).encode() for message in MESSAGES]
    with transaction.atomic():
        for line in raw:
            accept(parse_line(line), principal=SYSTEM, received_by="api")
        alone = stored()
        transaction.set_rollback(True)
    assert accept_stream([b"\n".join(raw)], principal=SYSTEM).accepted == len(MESSAGES)
    together = stored()
    for part in STORED:
        assert together[part] == alone[part], part
