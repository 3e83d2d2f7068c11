"""Which header fields a delivery may carry (RELIABILITY S7).

A message's headers were written by whoever produced it. Only those on the destination's list are copied to a delivery,
and never one that frames the request, says who asks, says whence it came, or is ours.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")  # RFC 9110, section 5.6.2
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

OWN_PREFIX = "poisonadmin-"
_FRAMING = frozenset(
    {
        "connection", "content-length", "content-type", "expect", "host", "http2-settings", "keep-alive", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_IDENTITY = frozenset(
    {
        "authorization", "cookie", "cookie2", "forwarded", "set-cookie", "via", "x-amz-security-token", "x-api-key",
        "x-auth-token", "x-client-ip", "x-csrf-token", "x-http-method-override", "x-original-url", "x-real-ip",
        "x-rewrite-url",
    }
)  # fmt: skip
_NEVER_PREFIXES = (OWN_PREFIX, "proxy-", "x-forwarded-")

# A name, or the beginning of one and an asterisk.
COPIED_BY_DEFAULT = (
    "x-*", "ce-*", "webhook-*", "traceparent", "tracestate", "baggage", "correlation-id", "content-encoding",
    "content-language", "idempotency-key",
)  # fmt: skip


def is_sendable(name: str, value: str) -> bool:
    """Return whether a field can be written without changing what is around it: no CR, LF, NUL or other control.

    >>> is_sendable("X-Kind", "push"), is_sendable("X-Kind", "a\\r\\nX-Admin: 1"), is_sendable("X Kind", "push")
    (True, False, False)
    """
    return TOKEN.match(name) is not None and _UNSENDABLE.search(value) is None


def is_reserved(name: str) -> bool:
    """Return whether a destination's own configuration may not set this field either."""
    lower = name.lower()
    return lower in _FRAMING or lower.startswith((OWN_PREFIX, "proxy-"))


class CopyList:
    """A destination's list of header fields that are copied; the decision on a name is remembered."""

    def __init__(self, patterns: Iterable[str] = COPIED_BY_DEFAULT) -> None:
        lower = [pattern.lower() for pattern in patterns]
        self._names = frozenset(pattern for pattern in lower if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in lower if pattern.endswith("*"))
        self._decided: dict[str, bool] = {}

    def copies(self, name: str) -> bool:
        """Return whether a message's header of this name goes along.

        >>> CopyList().copies("X-GitHub-Event"), CopyList(["*"]).copies("Cookie")
        (True, False)
        """
        decided = self._decided.get(name)
        if decided is None:
            if len(self._decided) > 1000:  # names are a producer's, who may invent new ones for ever
                self._decided.clear()
            decided = self._decided[name] = self._decide(name.lower())
        return decided

    def _decide(self, lower: str) -> bool:
        if TOKEN.match(lower) is None or lower in _FRAMING or lower in _IDENTITY or lower.startswith(_NEVER_PREFIXES):
            return False
        return lower in self._names or lower.startswith(self._prefixes)


def field_text(text: str) -> str:
    """Return `text` as a field value: everything but printable ASCII, and the percent sign, is percent-encoded.

    >>> field_text("orders.eu"), field_text("größe\\n")
    ('orders.eu', 'gr%C3%B6%C3%9Fe%0A')
    """
    if text.isascii() and text.isprintable() and "%" not in text:
        return text
    return quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~", errors="replace")
