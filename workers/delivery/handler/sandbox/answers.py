"""Answers that a handler may return instead of nothing. Handlers write `from poisonadmin_handler import MoveTo`.

The sandbox offers this file under the name `poisonadmin_handler`; it imports the standard library only.
"""

from dataclasses import dataclass
from typing import Any

__all__ = ["Discard", "EndConversation", "HandlerMessage", "Message", "MoveTo", "Rollback"]


@dataclass(frozen=True)
class Discard:
    """Give the message up: FAIL `discarded_by_policy`; its record is kept."""

    why: str = ""


@dataclass(frozen=True)
class MoveTo:
    """Put the message on another address, where it is due at once."""

    address: str
    why: str = ""


@dataclass(frozen=True)
class Rollback:
    """Put the message back without counting a failure; it is tried again after the policy's first delay."""

    why: str = ""


@dataclass(frozen=True)
class EndConversation:
    """End the message's conversation: what else of it waits, or comes later, is parked.

    Without an error the message counts as delivered. With `error`, or a `code` other than 0, it is given up, and where
    the policy has a `conversation_error_address` the other side learns of it there.
    """

    error: str = ""
    code: int = 0


@dataclass(frozen=True)
class HandlerMessage:
    """A message that a handler is called with. `id` and `attempt` are those that HTTP consumers find in their headers.

    `message_id` is the producer's. `attempt` is never reset; a message may come again after it was handled, when its
    outcome was lost: keep (id, attempt), or id alone, where doing it twice would hurt. `delivery_count`: its failures
    so far and this delivery, as JMS counts. `original_address`: where it was before it was moved.
    """

    payload: bytes
    headers: dict[str, str]
    id: int
    message_id: str
    address: str
    attempt: int
    content_type: str
    conversation_id: str | None = None
    bookmark: str | None = None
    delivery_count: int = 1
    is_redelivered: bool = False
    original_address: str | None = None

    def text(self) -> str:
        """Return the payload as UTF-8 text. Errors: `UnicodeDecodeError`."""
        return self.payload.decode("utf-8")

    def json(self) -> Any:
        """Return the payload's JSON value. Errors: `ValueError`."""
        import json

        return json.loads(self.payload)


Message = HandlerMessage  # the name by which handlers import it
