"""Crashes for pages to show: nodes and attempts as the delivery writes them, settled as always.

Only claiming is done here, so that a test says itself which messages share a node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.groups.domain.failures import Failure, fingerprint, title
from poisonadmin.messages.commands.transitions import move
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.claim import Claim, ClaimShard, Node, NodeEnd
from poisonadmin.store.models.message import Message

CALLABLE = "labels:render"
_CLAIM = move(
    State.TBDL,
    Event.CLAIMED,
    State.DLNG,
    chosen="SELECT id, address_id, state, reason, group_id FROM message WHERE id = ANY(%(ids)s) AND state = 'TBDL'",
    sets={"attempt_number": "attempt_number + 1", "claim_id": "%(claim)s", "shard": "0"},
)


@dataclass(frozen=True)
class Delivery:
    """Messages that one node took."""

    claim_id: int
    node_id: int


def take(ids: Sequence[int], *, alone: bool = False, host: str = "worker-1", pid: int = 4711) -> Delivery:
    """Let a node take the messages: TBDL -> DLNG."""
    until = timezone.now() + timedelta(minutes=1)
    claim = Claim.objects.create(lease_until=until, shards=1, size=len(ids), is_isolation=alone)
    ClaimShard.objects.create(claim_id=claim.id, shard=0, message_ids=list(ids))
    node = Node.objects.create(
        name=f"{host}/{pid}",
        host=host,
        pid=pid,
        claim_id=claim.id,
        shard=0,
        lease_until=until,
        begun=len(ids),
        start_mark=ids[0] if alone else None,
    )
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"ids": list(ids), "claim": claim.id, "actor": "system", "note": None})
    return Delivery(claim.id, node.id)


def deliver(delivery: Delivery, *ids: int) -> None:
    """Write that these were delivered."""
    for message_id in ids:
        _attempt(delivery, message_id, outcome="delivered")
    settle(delivery.claim_id)


def crash(
    delivery: Delivery,
    message_id: int,
    *,
    error_class: str = "HandlerSegfault",
    error_message: str = "The handler was killed by SIGSEGV.",
    exit_status: int | None = -11,
    output: bytes | None = b"loading template\nrendering label\n",
    **columns: Any,
) -> None:
    """Write that the message killed its sandbox."""
    died = _failure(Failure(error_class, error_message, frames=(CALLABLE,)))
    _attempt(delivery, message_id, outcome="crashed", exit_status=exit_status, output=output, **(died | columns))
    settle(delivery.claim_id)


def suspect(delivery: Delivery, message_id: int) -> None:
    """Write that the message was being delivered when another one crashed, under the plain rule."""
    suspicion = Failure("HandlerSuspected", "It was in delivery when message 1 crashed.", frames=(CALLABLE,))
    _attempt(delivery, message_id, outcome="suspected", **_failure(suspicion))
    settle(delivery.claim_id)


def lose(delivery: Delivery, *begun: int) -> None:
    """Write that the node died while these were being delivered; the others go back."""
    for message_id in begun:
        lost = Failure("NodeLost", "The node worker-1/4711 was lost while it handled this message.")
        _attempt(delivery, message_id, outcome="node_lost", **_failure(lost))
    end(delivery, NodeEnd.LOST)


def end(delivery: Delivery, how: NodeEnd = NodeEnd.CLEAN) -> None:
    """Write that the node ended, and settle its claim."""
    Node.objects.filter(id=delivery.node_id).update(end=how, ended_at=timezone.now())
    settle(delivery.claim_id)


def blacklist(message_id: int, *bystanders: int, **columns: Any) -> tuple[Delivery, Delivery]:
    """Let a message crash among bystanders, which are delivered, and then alone; return both deliveries."""
    among = take([message_id, *bystanders])
    crash(among, message_id, **columns)
    deliver(among, *bystanders)
    end(among)
    alone = take([message_id], alone=True, pid=4712)
    crash(alone, message_id, **columns)
    end(alone)
    return among, alone


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "error_class": failure.exception_class,
        "error_message": failure.message,
        "fingerprint": fingerprint(failure),
        "title": title(failure),
    }


def _attempt(delivery: Delivery, message_id: int, **columns: Any) -> None:
    message = Message.objects.select_related("address").get(id=message_id)
    now = timezone.now()
    Attempt.objects.create(
        message_id=message.id,
        attempt_number=message.attempt_number,
        claim_id=delivery.claim_id,
        shard=0,
        destination_id=message.address.destination_id,
        started_at=now - timedelta(milliseconds=40),
        finished_at=now,
        **columns,
    )
