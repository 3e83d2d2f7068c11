"""Brokers as an example: sources that work and that fail, messages that came from them, confirmations."""

import json
from datetime import timedelta

from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.destinations.commands import save_destination
from poisonadmin.sources.commands.setup import save_source
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Body, Confirmation, Hop, Message

RABBITMQ = "amqps://rabbit.example.org/shop"
_DEATHS = (("orders.eu.retry", "expired"), ("orders.eu.dlq", "rejected"))


def make_brokers() -> None:
    """Make a source of each kind, a destination that returns what they bring, and what it has delivered."""
    now = timezone.now()
    login = {"username": "drain", "password": "of-the-example"}
    queues = ["orders.eu.dlq", "orders.us.dlq", "billing.dlq", "labels.dlq"]
    config = {"url": RABBITMQ, "queues": queues, "management_url": "https://rabbit.example.org:15671"}
    rabbit = save_source("shop-dead-letters", kind="rabbitmq", config=config, secrets=login, principal=SYSTEM)
    Source.objects.filter(id=rabbit.id).update(
        lag=1_204, checked_at=now, last_success_at=now, accepted=48_211, duplicates=12, returned=311, rejected=1
    )
    config = {"url": "kafka://one.example.org,two.example.org", "topics": ["orders-dlt"]}
    kafka = save_source("orders-dlt", kind="kafka", config=config, principal=SYSTEM)
    Source.objects.filter(id=kafka.id).update(
        failures=4,
        last_error="no connection to one.example.org:9092: Connection refused",
        last_error_at=now,
        next_check_at=now + timedelta(seconds=16),
        accepted=902,
    )
    save_destination(
        "back-to-rabbit",
        kind="rabbitmq",
        config={"url": RABBITMQ, "confirm_within_ms": 600_000},
        secrets=login,
        max_rate_per_second=None,
        principal=SYSTEM,
    )
    _bring_along()
    _let_some_be_unanswered()


def _bring_along() -> None:
    transport = {
        "broker": "rabbitmq",
        "queue": "orders.eu",
        "exchange": "orders",
        "routing_key": "orders.eu.created",
        "properties": {"delivery_mode": 2, "priority": 4, "correlation_id": "basket-77", "type": "order.created"},
        "headers": {"base64": "AAAABgR0ZXN0dAE="},
    }
    message = Message.objects.filter(state="NDLV").order_by("-id")[0]
    Body.objects.filter(id=message.id).update(transport=json.dumps(transport).encode())
    for queue, reason in _DEATHS:
        Hop.objects.create(
            message_id=message.id, from_address="orders.eu", to_address=queue, reason=reason, by="rabbitmq", times=2
        )


def _let_some_be_unanswered() -> None:
    now, destination = timezone.now(), Destination.objects.get(name="back-to-rabbit")
    for place, message in enumerate(Message.objects.filter(state="DLVD").order_by("-id")[:6]):
        answered = place == 5
        Attempt.objects.filter(message_id=message.id).update(destination_id=destination.id)
        Confirmation.objects.create(
            message_id=message.id,
            attempt_number=message.attempt_number,
            destination_id=destination.id,
            delivered_at=now - timedelta(minutes=20),
            confirm_by=now + timedelta(minutes=-10 if place < 3 else 10),
            confirmed_at=now if answered else None,
            confirmed_by="token shop-consumer" if answered else None,
        )
