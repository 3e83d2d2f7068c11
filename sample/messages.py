"""The messages of the sample: real webhooks, and dead letters as other systems hand them in."""

import random
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from poisonadmin.intake.domain.envelope import MessageEnvelope, parse_envelope, parse_line
from poisonadmin.messages.domain.dead_letter import DeadLetter

WEBHOOKS = Path(__file__).with_name("github-webhooks.ndjson")
# Nobody waits for these longer than some seconds; their consumer is down for longer.
EXPIRING = frozenset({"github.marketplace_purchase"})
DEAD_LETTER_ADDRESS = "legacy.orders.dlq"
ORIGINAL_ADDRESS = "legacy.orders"


def webhooks(now: datetime) -> Iterator[MessageEnvelope]:
    """Yield the 250 webhooks as they are in the file, with an `expires_at` where nobody waits for long."""
    with WEBHOOKS.open("rb") as lines:
        for line in lines:
            yield with_expiry(parse_line(line), now)


def with_expiry(envelope: MessageEnvelope, now: datetime) -> MessageEnvelope:
    """Return the envelope, expiring within seconds if it is of a kind that does."""
    if envelope.address not in EXPIRING:
        return envelope
    return replace(envelope, expires_at=now + timedelta(seconds=8))


def again(envelope: MessageEnvelope, now: datetime) -> MessageEnvelope:
    """Return the same event as a new message."""
    mark = str(uuid.uuid4())
    event = envelope.address.rpartition(".")[2]
    fresh = replace(envelope, message_id=f"{event}-{mark}", headers=envelope.headers | {"X-GitHub-Delivery": mark})
    return with_expiry(fresh, now)


_STACKS = (
    DeadLetter(
        reason="Listener threw an exception, retries exhausted",
        exception_class="org.springframework.messaging.converter.MessageConversionException",
        exception_message='Could not read JSON: Unrecognized field "loyalty_tier" (class com.acme.orders.Order)',
        stack="""org.springframework.messaging.converter.MessageConversionException: Could not read JSON
\tat org.springframework.messaging.converter.SimpleMessageConverter.fromMessage(SimpleMessageConverter.java:71)
\tat org.springframework.amqp.rabbit.listener.BlockingQueueConsumer.handle(BlockingQueueConsumer.java:319)
\tat com.acme.orders.OrderListener.onOrderCreated(OrderListener.java:58)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException: Unrecognized field "loyalty_tier"
\tat com.fasterxml.jackson.databind.DeserializationContext.handleUnknownProperty(DeserializationContext.java:1153)
\tat com.acme.orders.OrderCodec.decode(OrderCodec.java:31)
\t... 14 more""",
        delivery_count=5,
    ),
    DeadLetter(
        reason="rejected",
        exception_class="KeyError",
        exception_message="'shipping_address'",
        stack="""Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/celery/app/trace.py", line 453, in trace_task
    R = retval = fun(*args, **kwargs)
  File "/srv/orders/orders/tasks.py", line 88, in ship_order
    parcel = build_parcel(order)
  File "/srv/orders/orders/shipping.py", line 41, in build_parcel
    address = order["shipping_address"]
KeyError: 'shipping_address'""",
        delivery_count=3,
    ),
    DeadLetter(
        reason="MaxDeliveryCountExceeded",
        exception_class="System.NullReferenceException",
        exception_message="Object reference not set to an instance of an object.",
        stack="""System.NullReferenceException: Object reference not set to an instance of an object.
   at Acme.Billing.InvoiceBuilder.AddTax(Order order) in /src/Billing/InvoiceBuilder.cs:line 112
   at Acme.Billing.InvoiceConsumer.Consume(ConsumeContext`1 context) in /src/Billing/InvoiceConsumer.cs:line 37
   at MassTransit.Pipeline.Filters.ConsumerMessageFilter`2.Send(ConsumeContext`1 context)""",
        delivery_count=10,
    ),
    DeadLetter(
        reason="maxReceiveCount",
        exception_class="TypeError",
        exception_message="Cannot read properties of undefined (reading 'currency')",
        stack="""TypeError: Cannot read properties of undefined (reading 'currency')
    at toMinorUnits (/app/src/payments/money.js:19:28)
    at handleOrder (/app/src/payments/worker.js:54:21)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
    at async Consumer.executeHandler (/app/node_modules/sqs-consumer/dist/consumer.js:300:20)""",
        delivery_count=3,
    ),
)


def dead_letters(now: datetime) -> Iterator[MessageEnvelope]:
    """Yield one dead letter of each kind."""
    for number, _ in enumerate(_STACKS, start=1):
        yield dead_letter(number, f"order-{4710 + number}", now)


def dead_letter(number: int, message_id: str, now: datetime) -> MessageEnvelope:
    """Return the `number`th dead letter, which failed some minutes before `now` in one of four systems."""
    dice = random.Random(message_id)
    told = _STACKS[number % len(_STACKS)]
    order = {
        "order_id": message_id,
        "customer": f"customer-{dice.randrange(100, 999)}",
        "lines": [{"sku": f"SKU-{dice.randrange(10_000)}", "quantity": dice.randrange(1, 5)} for _ in range(2)],
        "loyalty_tier": dice.choice(["silver", "gold"]),
        "placed_at": "2026-01-15T09:30:00Z",
    }
    envelope = parse_envelope({"address": DEAD_LETTER_ADDRESS, "message_id": message_id, "payload": order})
    failed_at = now - timedelta(seconds=dice.randrange(60, 3600))
    return replace(envelope, dead_letter=replace(told, original_address=ORIGINAL_ADDRESS, failed_at=failed_at))
