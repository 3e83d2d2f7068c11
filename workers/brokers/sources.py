"""Sources as their rows have them, and the checks of brokers that people ask for, through the adapter of their kind.

The login is read by whoever connects, and is in no job's options. What is checked stays where it is.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from poisonadmin.brokers.domain.broker_kinds import SOURCE_DEFAULTS
from poisonadmin.core.domain.encryption import UnreadableSecret, decrypted
from poisonadmin.groups.domain.failures import fingerprint, from_dead_letter, title
from poisonadmin.sources.domain.broker_checks import (
    OBSERVED_MESSAGES,
    PREVIEWED_MESSAGES,
    SHOWN_ADDRESSES,
    SHOWN_BYTES,
    SHOWN_GROUPS,
    SHOWN_HEADERS,
    SHOWN_QUEUES,
    BrokerCheckResult,
    FoundGroup,
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
    try:
        login = login_of(kind, config, decrypted(secrets, os.environ))
    except UnreadableSecret as error:
        raise BrokerError(error.detail) from None
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
    if purpose == "connection":
        broker.shards(login)
    # Counted first: what was shown is on its way back for a moment.
    depth = broker.depth(login)
    if purpose == "preview":
        seen = broker.browse(login, PREVIEWED_MESSAGES)
        return BrokerCheckResult(depth, messages=[_found_message(one) for one in seen])
    if purpose == "groups":
        groups = _grouped(broker.browse(login, OBSERVED_MESSAGES))
        return BrokerCheckResult(depth, groups=groups[:SHOWN_GROUPS], groups_of=sum(one.count for one in groups))
    return BrokerCheckResult(depth)


def _grouped(messages: Iterable[Incoming]) -> list[FoundGroup]:
    """Return the failure groups of messages, the largest first; of their payloads no more is kept than a sample's."""
    samples: dict[str, tuple[str, FoundMessage]] = {}
    seen: dict[str, list[tuple[datetime | None, str | None]]] = defaultdict(list)
    for message in messages:
        letter = message.dead_letter
        failure = from_dead_letter(letter)
        key = fingerprint(failure)
        if key not in samples:
            samples[key] = shown(title(failure)) or "", _found_message(message)
        seen[key].append((letter.failed_at, shown(letter.original_address)))
    groups = []
    for key, found in seen.items():
        times = [at for at, _ in found if at]
        addresses = sorted({address for _, address in found if address})[:SHOWN_ADDRESSES]
        text, sample = samples[key]
        first, last = min(times, default=None), max(times, default=None)
        groups.append(FoundGroup(key, text, len(found), addresses, first, last, sample))
    return sorted(groups, key=lambda one: -one.count)


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
