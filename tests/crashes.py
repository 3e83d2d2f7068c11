"""Crashes as the delivery leaves them behind: what was claimed together, its node, its attempts, its history.

States are changed as operations change them, with history and counters, so that pages and counts agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from poisonadmin.operations.ledger import RECORDED
from poisonadmin.store.models import Attempt, Claim, ClaimShard, Message, Node
from poisonadmin.store.models.claim import NodeEnd

_CHANGE = f"""
WITH before AS (
    SELECT id, address_id, state, reason, group_id FROM message WHERE id = ANY(%(ids)s)
), changed AS (
    UPDATE message SET state_at = now(), {{sets}} FROM before WHERE message.id = before.id
    RETURNING message.id, message.address_id, message.state, message.reason, message.group_id, message.attempt_number,
              before.address_id AS was_address_id, before.state AS was_state, before.reason AS was_reason,
              before.group_id AS was_group_id, %(event)s AS event
), {RECORDED}
SELECT count(*) FROM changed
"""
_CLAIMED = "state = 'DLNG', attempt_number = attempt_number + 1, claim_id = %(claim)s, shard = 0"
_DELIVERED = "state = 'DLVD', crash_count = 0, failure_count = 0, candidate = FALSE"
_AGAIN = "state = 'TBDL', due_at = now(), candidate = TRUE, crash_count = crash_count + 1"
_BLACKLISTED = "state = 'NDLV', reason = 'blacklisted', candidate = TRUE, crash_count = crash_count + 1"
_SUSPECTED = "state = 'TBDL', due_at = now(), candidate = TRUE"


@dataclass(frozen=True)
class Delivery:
    """Messages that one node took."""

    claim: Claim
    node: Node


def take(ids: Sequence[int], *, alone: bool = False, host: str = "worker-1", pid: int = 4711) -> Delivery:
    """Let a node take the messages: TBDL -> DLNG."""
    now = timezone.now()
    claim = Claim.objects.create(
        lease_until=now + timedelta(minutes=1), shards=1, size=len(ids), is_isolation=alone, is_open=True
    )
    ClaimShard.objects.create(claim_id=claim.id, shard=0, message_ids=list(ids))
    node = Node.objects.create(
        name=f"{host}/{pid}",
        host=host,
        pid=pid,
        claim_id=claim.id,
        shard=0,
        lease_until=now + timedelta(minutes=1),
        begun=len(ids),
        start_mark=ids[0] if alone else None,
    )
    _change(ids, "claimed", _CLAIMED, claim=claim.id)
    return Delivery(claim, node)


def deliver(delivery: Delivery, *ids: int) -> None:
    """Write that these were delivered."""
    for message in Message.objects.filter(id__in=ids):
        _attempt(delivery, message, outcome="delivered")
    _change(ids, "delivered", _DELIVERED)


def crash(delivery: Delivery, message_id: int, *, blacklisted: bool = False, **columns: Any) -> None:
    """Write that the message killed its sandbox; by a segmentation fault unless `columns` say otherwise."""
    died: dict[str, Any] = {
        "outcome": "crashed",
        "exit_status": -11,
        "error_class": "HandlerSegfault",
        "error_message": "The handler's process was killed by SIGSEGV.",
        "title": "HandlerSegfault: labels.render",
        "output": b"loading template\nrendering label\n",
    }
    _attempt(delivery, Message.objects.get(id=message_id), **(died | columns))
    _change([message_id], "crashed", _BLACKLISTED if blacklisted else _AGAIN)


def lose(delivery: Delivery, *begun: int) -> None:
    """Write that the node died while these were being delivered."""
    for message in Message.objects.filter(id__in=begun):
        _attempt(delivery, message, outcome="node_lost", error_class="NodeLost", title="NodeLost: worker gone")
    _change(begun, "node_lost", _SUSPECTED)
    end(delivery, NodeEnd.LOST)


def end(delivery: Delivery, how: NodeEnd = NodeEnd.CLEAN) -> None:
    """Write that the node ended."""
    Node.objects.filter(id=delivery.node.id).update(end=how, ended_at=timezone.now())
    Claim.objects.filter(id=delivery.claim.id).update(is_open=False)


def blacklist(message_id: int, *bystanders: int, **columns: Any) -> tuple[Delivery, Delivery]:
    """Let a message crash among bystanders, which are delivered, and then alone; return both deliveries."""
    among = take([message_id, *bystanders])
    crash(among, message_id, **columns)
    deliver(among, *bystanders)
    end(among)
    alone = take([message_id], alone=True, pid=4712)
    crash(alone, message_id, blacklisted=True, **columns)
    end(alone)
    return among, alone


def _attempt(delivery: Delivery, message: Message, **columns: Any) -> None:
    now = timezone.now()
    values: dict[str, Any] = {"started_at": now - timedelta(milliseconds=40), "finished_at": now, **columns}
    Attempt.objects.create(
        message_id=message.id,
        attempt_number=message.attempt_number,
        claim_id=delivery.claim.id,
        shard=0,
        destination_id=message.address.destination_id,
        **values,
    )


def _change(ids: Sequence[int], event: str, sets: str, **values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _CHANGE.format(sets=sets), {"ids": list(ids), "event": event, "actor": "system", "note": None} | values
        )
