"""Sources as their rows have them, and the checks of brokers that people ask for, through the adapter of their kind.

The login is read by whoever connects, and is in no job's options. What is checked stays where it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from poisonadmin.brokers.domain.broker_kinds import SOURCE_DEFAULTS
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
from workers.brokers.contract import BrokerError, Incoming, Login, Shard, adapter

_SOURCE = "SELECT kind, config, secrets FROM source WHERE id = %s AND is_enabled"


@dataclass(frozen=True)
class BrokerSource:
    """A source that is drained. `template`: which address its messages are taken in at."""

    kind: str
    login: Login
    template: str


def read_source(database_url: str, source_id: int) -> BrokerSource:
    """Return the source; raise `BrokerError` when it is gone or switched off."""
    with psycopg.connect(database_url, connect_timeout=5) as connection:
        row = connection.execute(_SOURCE, [source_id]).fetchone()
    if row is None:
        raise BrokerError("the source is switched off or gone")
    kind, config, secrets = row
    login = login_of(kind, config, secrets)
    return BrokerSource(kind, login, login.options["address"])


def login_of(kind: str, config: Mapping[str, Any], secrets: Mapping[str, str]) -> Login:
    """Return how a source with this configuration is reached."""
    options = {**SOURCE_DEFAULTS[kind], **config}
    return Login(config["url"], secrets.get("username", ""), secrets.get("password", ""), options)


def depth_of(database_url: str, source_id: int) -> int | None:
    """Return how many messages wait in the source's queues, None where nobody can say. Errors: `BrokerError`."""
    source = read_source(database_url, source_id)
    return adapter(source.kind).depth(source.login)


def shards_of(database_url: str, source_id: int) -> list[Shard]:
    """Return what may be drained side by side. Errors: `BrokerError`."""
    source = read_source(database_url, source_id)
    return adapter(source.kind).shards(source.login)


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
