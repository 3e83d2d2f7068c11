"""The purpose and the result of a broker check: made by a worker, kept as JSON, shown by API and pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from poisonadmin.messages.domain.envelope_fields import storable

PREVIEWED_MESSAGES = 20
SHOWN_BYTES = 2048
SHOWN_HEADERS = 60
SHOWN_CHARS = 1000
SHOWN_QUEUES = 500


class BrokerCheckPurpose(StrEnum):
    """CONNECTION: can it be drained, and how much waits? PREVIEW: the first messages, left there. QUEUES: which are
    there?"""

    CONNECTION = "connection"
    PREVIEW = "preview"
    QUEUES = "queues"


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
class BrokerCheckResult:
    """`depth`: messages waiting in all that would be drained, null where nobody can say. `queues` and `messages`: where
    the purpose is to find them. A check takes nothing."""

    depth: int | None = None
    queues: list[FoundQueue] = field(default_factory=list)
    messages: list[FoundMessage] = field(default_factory=list)


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
    )
