"""Broker checks that people ask for, through the adapter of the broker's kind; every message stays there."""

from collections.abc import Mapping
from typing import Any

from poisonadmin.sources.domain.broker_checks import (
    PREVIEWED_MESSAGES,
    SHOWN_BYTES,
    SHOWN_HEADERS,
    SHOWN_QUEUES,
    BrokerCheckResult,
    FoundMessage,
    FoundQueue,
    shown,
)
from workers.brokers.contract import Incoming
from workers.brokers.registry import adapter
from workers.brokers.sources import login_of


def check_broker(purpose: str, kind: str, config: Mapping[str, Any], secrets: Mapping[str, str]) -> BrokerCheckResult:
    """Return the result of a check with this purpose. Errors: `BrokerError`."""
    login = login_of(kind, config, secrets)
    broker = adapter(kind)
    if purpose == "queues":
        queues = broker.queues(login)[:SHOWN_QUEUES]
        return BrokerCheckResult(
            queues=[FoundQueue(shown(one.name) or "", one.depth, shown(one.why) or "") for one in queues]
        )
    if purpose == "preview":
        # Counted first: what was shown is on its way back for a moment.
        depth = broker.depth(login)
        return BrokerCheckResult(
            depth, messages=[_found_message(one) for one in broker.browse(login, PREVIEWED_MESSAGES)]
        )
    broker.shards(login)
    return BrokerCheckResult(broker.depth(login))


def _found_message(message: Incoming) -> FoundMessage:
    start = bytes(message.payload[:SHOWN_BYTES])
    # The cut may fall into a character.
    text = start.decode("utf-8", "replace").rstrip("\N{REPLACEMENT CHARACTER}")
    headers = list(message.headers.items())[:SHOWN_HEADERS]
    dead_letter = message.dead_letter
    return FoundMessage(
        queue=shown(message.queue) or "",
        message_id=shown(message.message_id),
        broker_id=shown(message.broker_id),
        is_redelivered=message.is_redelivered,
        content_type=shown(message.content_type) or "",
        payload_bytes=len(message.payload),
        payload_text=shown(text, chars=SHOWN_BYTES) or "",
        headers={shown(name) or "": shown(value) or "" for name, value in headers},
        original_address=shown(dead_letter.original_address),
        reason=shown(dead_letter.reason),
        exception_class=shown(dead_letter.cause_class or dead_letter.exception_class),
        exception_message=shown(dead_letter.exception_message),
        delivery_count=dead_letter.delivery_count,
    )
