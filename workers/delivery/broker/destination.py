"""A broker destination as a task uses it, made from its configuration and its secrets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from poisonadmin.sources.domain.broker_kinds import DESTINATION_DEFAULTS
from poisonadmin.sources.domain.brokers import validate_broker_destination
from workers.brokers.contract import Login, Outgoing
from workers.delivery.deliveries import Delivery

_NOBODY = Login("")


@dataclass(frozen=True)
class BrokerDestination:
    """Where to publish and how. `connections`: at once in this task; `batch`: messages published at once on each.

    `redirect`: the queue or topic for all; None: each goes to where it came from. `broken`: why the configuration
    cannot be used; each delivery then fails with that.
    """

    id: int
    name: str
    kind: str
    login: Login = field(default=_NOBODY, repr=False)
    redirect: str | None = None
    batch: int = 500
    connections: int = 1
    timeout_seconds: float = 30.0
    broken: str | None = None


def parse_broker_config(
    kind: str,
    config: Mapping[str, Any],
    secrets: Mapping[str, Any] | None = None,
    *,
    id: int = 0,  # noqa: A002
    name: str = "",
    slots: int | None = None,
) -> BrokerDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used.

    `slots`: this task's share of the messages that may be under way.
    """
    wanted: dict[str, Any] = {**DESTINATION_DEFAULTS[kind], **validate_broker_destination(kind, config)}
    hidden = secrets or {}
    batch = wanted["batch"] if slots is None else min(wanted["batch"], max(slots, 1))
    return BrokerDestination(
        id=id,
        name=name,
        kind=kind,
        login=Login(wanted["url"], hidden.get("username", ""), hidden.get("password", ""), wanted),
        redirect=wanted.get("queue") or wanted.get("topic"),
        batch=batch,
        connections=wanted["concurrency"] if slots is None else -(-max(slots, 1) // batch),
        timeout_seconds=wanted["timeout_ms"] / 1000,
    )


def outgoing(delivery: Delivery, to: BrokerDestination) -> Outgoing:
    """Return the message as its publisher takes it, on its way back or to the destination's redirect."""
    transport = orjson.loads(delivery.transport) if delivery.transport else None
    return Outgoing(
        payload=delivery.payload,
        content_type=delivery.content_type,
        headers=delivery.headers,
        own_headers={
            "PoisonAdmin-Message-Id": str(delivery.message_id),
            "PoisonAdmin-Attempt": str(delivery.attempt_number),
        },
        route=_route(delivery, to, transport),
        message_id=delivery.producer_message_id,
        conversation_id=delivery.conversation_id,
        transport=transport,
    )


def _route(delivery: Delivery, to: BrokerDestination, transport: Mapping[str, Any] | None) -> str:
    """Return the redirect, else where this broker once had the message, else its address.

    Empty where the broker's own routing leads back: only exchange and key are known of it.
    """
    if to.redirect is not None:
        return to.redirect
    if transport is None or transport.get("broker") != to.kind:
        return delivery.address
    if original := transport.get("queue") or transport.get("topic"):
        return str(original)
    return "" if transport.get("exchange") else delivery.address
