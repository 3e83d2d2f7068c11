"""Rows of one message: its own, its attempts, states and moves."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poisonadmin.messages.domain.attempt import ShownAttempt
from poisonadmin.messages.queries.crashes import SandboxEndWords
from poisonadmin.messages.queries.message_rows import MessageRow


@dataclass(frozen=True)
class MessageDetail(MessageRow):
    """All of a message but its payload. `destination` is where its address delivers, None for a parking address and
    where the reader may not see it; `has_destination` tells the two apart.

    Of a message that was moved: `queue` is the one that was auto-created for it where it is now, `origin` the
    properties that say where it comes from. `note`: what people say of it.
    `delivered_to`: `broker` when a broker has taken it and the consumer behind it has not confirmed it, `consumer` when
    that one has, or took it itself; None unless it is DLVD. `confirm_by`: when its confirmation is overdue.
    `payload_removed_at`: when its payload was removed for good, since the policy of the pattern `payload_policy` keeps
    it `payload_kept_days`; None while it is kept. `payload_bytes` says how large it was.
    """

    intake_address: str
    bookmark: str | None
    received_by: str
    parent_id: int | None
    destination: str | None
    queue: str | None
    origin: Mapping[str, str]
    header_bytes: bytes
    delivered_to: str | None
    confirm_by: datetime | None
    confirmed_at: datetime | None
    confirmed_by: str | None
    confirmation_note: str | None
    payload_removed_at: datetime | None
    payload_kept_days: int | None
    payload_policy: str | None
    note: str

    @property
    def headers(self) -> dict[str, Any]:
        """The producer's headers; empty when they cannot be read."""
        return json_object(self.header_bytes) or {}


@dataclass(kw_only=True)
class AttemptRow(ShownAttempt, SandboxEndWords):
    """One delivery try. Number 0 is the failure that a dead letter had before import.

    `exit_status` is that of the sandbox that died, negative for a signal, whose name is `signal`; `output_text` is the
    last 8 kB that the handler printed. `host` and `node_end` (clean, lost, fenced) are the node's. `is_alone`: it was
    delivered by itself, as candidates are; None when that is no longer on record. `consumer_version`: as the consumer
    stated it with its answer, where that was no plain success. `version`: of the payload and the headers that it
    carried.
    """

    node: str | None
    destination: str | None
    group_id: int | None
    node_id: int | None
    host: str | None
    node_end: str | None
    is_alone: bool | None
    version: int

    @property
    def response_text(self) -> str | None:
        """The readable part of the answer's first bytes; never markup to be trusted."""
        return None if self.response is None else bytes(self.response).decode("utf-8", "replace")


@dataclass(frozen=True)
class HistoryRow:
    """One state change; `note` is the reason that a person gave, `operation_id` the operation that decided on it.

    `version`: of the payload and the headers, where this change made one.
    """

    seq: int
    at: datetime
    from_state: str | None
    to_state: str
    event: str
    reason: str | None
    attempt_number: int
    actor: str
    note: str | None
    operation_id: int | None
    version: int | None


@dataclass(frozen=True)
class HopRow:
    """One move from an address to another; of a broker's, where `times` says how often, by the broker's own names."""

    id: int
    at: datetime
    from_address: str
    to_address: str
    queue: str | None
    reason: str
    by: str
    times: int | None


@dataclass(frozen=True)
class Transport:
    """`transport`: `{broker, …}` as its broker reported it, bytes in it as `{base64}`; null where no broker did.

    It is what the message is given back with, when it returns to a broker of this kind.
    """

    transport: Mapping[str, Any] | None


def json_object(stored: bytes) -> dict[str, Any] | None:
    """Return the JSON object that stored bytes are; None when they are none."""
    try:
        found = json.loads(bytes(stored))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
