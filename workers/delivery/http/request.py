"""A delivery as the head of an HTTP request, made of fields that cannot break it."""

from collections.abc import Mapping

from yarl import URL

from poisonadmin.destinations.domain.http_config import CopyList, field_text, is_sendable
from workers.delivery.deliveries import Delivery

_DEFAULTS = {"User-Agent": "PoisonAdmin", "Accept": "*/*", "Accept-Encoding": "identity"}
_FALLBACK_TYPE = "application/octet-stream"


class UnsendableField(ValueError):
    """Raised when a line break stands in a field, which `is_sendable` and `field_text` are there to prevent."""


class RequestWriter:
    """Writes the heads of requests to one URL. `headers` are the destination's own, which win over a message's."""

    def __init__(self, method: str, url: URL, headers: Mapping[str, str], copy_headers: tuple[str, ...]) -> None:
        self._copies = CopyList(copy_headers).copies
        self._set_here = frozenset(name.lower() for name in headers)
        self._beginning = (f"{method} {url.raw_path_qs} HTTP/1.1", f"Host: {url.host_port_subcomponent}")
        self._fixed = _lines(_DEFAULTS) | _lines(headers)

    def head(self, delivery: Delivery) -> bytes:
        """Return the head for this delivery: ours, the content type, and what the destination lets through."""
        lines = [
            *self._beginning,
            f"PoisonAdmin-Message-Id: {delivery.message_id}",
            f"PoisonAdmin-Attempt: {delivery.attempt_number}",
            f"PoisonAdmin-Delivery-Count: {delivery.delivery_count}",
            f"PoisonAdmin-Redelivered: {'true' if delivery.is_redelivered else 'false'}",
            f"PoisonAdmin-Address: {field_text(delivery.address)}",
            f"PoisonAdmin-Producer-Message-Id: {field_text(delivery.producer_message_id)}",
            f"Content-Type: {_content_type(delivery.content_type)}",
            f"Content-Length: {len(delivery.payload)}",
        ]
        if delivery.conversation_id is not None:
            lines.append(f"PoisonAdmin-Conversation-Id: {field_text(delivery.conversation_id)}")
        lines += (self._fixed | self._of_message(delivery)).values()
        lines += ("", "")
        text = "\r\n".join(lines)
        if not text.count("\n") == text.count("\r") == len(lines) - 1:
            raise UnsendableField("A header field holds a line break.")
        return text.encode()

    def _of_message(self, delivery: Delivery) -> dict[str, str]:
        """Return where the message comes from, and its headers that are copied."""
        found = _lines({name: field_text(value) for name, value in delivery.origin.items()})
        for name, value in delivery.headers.items():
            if self._copies(name) and name.lower() not in self._set_here and is_sendable(name, value):
                found[name.lower()] = f"{name}: {value.strip()}"
        return found


def _lines(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the lines of these fields by lower-case name."""
    return {name.lower(): f"{name}: {value}" for name, value in headers.items()}


def _content_type(text: str) -> str:
    return text if text.isascii() and text.isprintable() and text else _FALLBACK_TYPE
