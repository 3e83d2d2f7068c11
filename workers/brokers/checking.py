"""A look at a broker, as a person asked for it: over the adapter of its kind, and nothing is taken."""

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
from poisonadmin.sources.domain.broker_kinds import SOURCE_DEFAULTS
from workers.brokers.contract import Login, Taken
from workers.brokers.registry import adapter


def check_broker(purpose: str, kind: str, config: Mapping[str, Any], secrets: Mapping[str, str]) -> BrokerCheckResult:
    """Return what is seen at the broker for the purpose. Errors: `BrokerError`."""
    options = {**SOURCE_DEFAULTS[kind], **config}
    login = Login(config["url"], secrets.get("username", ""), secrets.get("password", ""), options)
    broker = adapter(kind)
    if purpose == "queues":
        found = broker.queues(login)[:SHOWN_QUEUES]
        return BrokerCheckResult(
            queues=[FoundQueue(shown(one.name) or "", one.depth, shown(one.why) or "") for one in found]
        )
    if purpose == "preview":
        seen = [_seen(taken) for taken in broker.browse(login, PREVIEWED_MESSAGES)]
        return BrokerCheckResult(broker.depth(login), messages=seen)
    broker.shards(login)
    return BrokerCheckResult(broker.depth(login))


def _seen(taken: Taken) -> FoundMessage:
    start = bytes(taken.payload[:SHOWN_BYTES])
    # The cut may fall into a character.
    text = start.decode("utf-8", "replace").rstrip("\N{REPLACEMENT CHARACTER}")
    headers = list(taken.headers.items())[:SHOWN_HEADERS]
    told = taken.dead_letter
    return FoundMessage(
        queue=shown(taken.queue) or "",
        message_id=shown(taken.message_id),
        broker_id=shown(taken.broker_id),
        is_redelivered=taken.is_redelivered,
        content_type=shown(taken.content_type) or "",
        payload_bytes=len(taken.payload),
        payload_text=shown(text, chars=SHOWN_BYTES) or "",
        headers={shown(name) or "": shown(value) or "" for name, value in headers},
        original_address=shown(told.original_address),
        reason=shown(told.reason),
        exception_class=shown(told.cause_class or told.exception_class),
        exception_message=shown(told.exception_message),
        delivery_count=told.delivery_count,
    )
