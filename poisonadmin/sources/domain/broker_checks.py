"""The purpose and the result of a broker check: made by a worker, kept as JSON, shown by API and pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from poisonadmin.messages.domain.envelope_fields import storable

PREVIEWED_MESSAGES = 20
OBSERVED_MESSAGES = 5000
SHOWN_BYTES = 2048
SHOWN_HEADERS = 60
SHOWN_CHARS = 1000
SHOWN_QUEUES = 500
SHOWN_GROUPS = 200
SHOWN_ADDRESSES = 5


class BrokerCheckPurpose(StrEnum):
    """CONNECTION: can it be drained, and how much waits? PREVIEW: the first messages, left there. GROUPS: which
    failures do the messages that wait have, left there? QUEUES: which are there?"""

    CONNECTION = "connection"
    PREVIEW = "preview"
    GROUPS = "groups"
    QUEUES = "queues"

    @property
    def shows_messages(self) -> bool:
        """True when the result has payloads."""
        return self in (BrokerCheckPurpose.PREVIEW, BrokerCheckPurpose.GROUPS)


@dataclass(frozen=True)
class FoundQueue:
    """A queue or topic of the broker. `depth` null: nobody can say. `why`: the sign that it holds dead letters."""

    name: str
    depth: int | None = None
    why: str = ""


@dataclass(frozen=True)
class FoundMessage:
    """A message that waits at the broker and was left there. `payload_text`: its first bytes as far as text."""

    queue: str
    message_id: str | None
    broker_id: str | None
    is_redelivered: bool
    content_type: str
    payload_bytes: int
    payload_text: str
    headers: Mapping[str, str]
    original_address: str | None = None
    reason: str | None = None
    exception_class: str | None = None
    exception_message: str | None = None
    delivery_count: int | None = None


@dataclass(frozen=True)
class FoundGroup:
    """Messages with the same failure that wait at the broker, `count` of those that were read.

    `fingerprint` and `title` as a failure group's. `addresses`: some of those where they failed; `first_failed_at` and
    `last_failed_at`: null where the broker does not say. `group_id`: the failure group of messages that are
    here, null where there is none.
    """

    fingerprint: str
    title: str
    count: int
    addresses: list[str]
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    sample: FoundMessage
    group_id: int | None = None


@dataclass(frozen=True)
class BrokerCheckResult:
    """`depth`: messages waiting in all that would be drained, null where nobody can say. `queues`, `messages` and
    `groups`: where the purpose is to find them; `groups_of`: how many messages were read for the groups. A check takes
    nothing."""

    depth: int | None = None
    queues: list[FoundQueue] = field(default_factory=list)
    messages: list[FoundMessage] = field(default_factory=list)
    groups: list[FoundGroup] = field(default_factory=list)
    groups_of: int | None = None


def shown(text: str | None, *, chars: int = SHOWN_CHARS) -> str | None:
    """Return a broker's text as it can be stored and is shown: cut, without NUL and lone surrogates.

    >>> shown("a\\x00b"), shown("x" * 5, chars=3)
    ('a\ufffdb', 'xxx…')
    """
    if text is None:
        return None
    return storable(text if len(text) <= chars else text[:chars] + "…")


def result_from(stored: Mapping[str, Any]) -> BrokerCheckResult:
    """Return the result that was kept as JSON."""
    return BrokerCheckResult(
        stored["depth"],
        [FoundQueue(**row) for row in stored["queues"]],
        [FoundMessage(**row) for row in stored["messages"]],
        [_group_from(row) for row in stored.get("groups", [])],
        stored.get("groups_of"),
    )


def _group_from(row: Mapping[str, Any]) -> FoundGroup:
    times = {name: row[name] and datetime.fromisoformat(row[name]) for name in ("first_failed_at", "last_failed_at")}
    return FoundGroup(**{**row, **times, "sample": FoundMessage(**row["sample"])})
