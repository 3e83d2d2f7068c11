"""Which messages STOMP can carry: of a JMS map, stream or object it shows next to nothing, and says nothing about it.

Artemis is asked what it has given out, once for as much as it gives out at a time.
"""

import json

from stomp.utils import Frame

from workers.brokers.artemis.management import Management
from workers.brokers.artemis.messages import is_bytes, number_of
from workers.brokers.contract import BrokerError

# Without a body, a text, bytes; an object is 2, a map 5, a stream 6. Source: Artemis's core API, Message.
_CARRIED = frozenset((0, 3, 4))
_WHITESPACE = frozenset("\t\n\r")


class Kinds:
    """The kinds of the messages that one queue has given out. Errors: `BrokerError`."""

    def __init__(self, management: Management, queue: str) -> None:
        self._management = management
        self._queue = queue
        self._known: dict[str, int | None] = {}

    def is_carried(self, frame: Frame) -> bool:
        """Return whether the message's body is in its frame."""
        if is_bytes(frame.headers):
            return True
        number = number_of(frame.headers)
        if number not in self._known:
            self._ask()
        kind = self._known.get(number)
        return kind in _CARRIED if kind is not None else _is_a_text(bytes(frame.body or b""))

    def _ask(self) -> None:
        said = self._management.call(f"queue.{self._queue}", "listDeliveringMessagesAsJSON")
        try:
            given = [one for consumer in json.loads(said) for one in consumer["elements"]]
            self._known = {str(one["messageID"]): one.get("type") for one in given}
        except (ValueError, TypeError, KeyError) as error:
            raise BrokerError(f"the broker's list of what it has given out cannot be read: {error}") from None


def _is_a_text(body: bytes) -> bool:
    """Return whether this can be what a producer sent: what came over AMQP has no kind that Artemis tells."""
    text = body.decode("utf-8", "replace")
    return bool(text) and all(one.isprintable() or one in _WHITESPACE for one in text)
