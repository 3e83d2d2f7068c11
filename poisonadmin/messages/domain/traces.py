"""The trace that a message belongs to, by its headers, and links to it in systems that keep logs and traces."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any
from urllib.parse import quote, urlsplit

MAX_LINKS = 10
MAX_NAME_CHARS = 40
PLACEHOLDERS = ("trace_id", "message_id", "conversation_id")
# More of a header than the longest form has is not looked at.
_MAX_CHARS = 100
_NO_TRACE = "0" * 32
# The function `trace_key` of the database (migration 0009) says the same of stored headers.
# Sources: W3C Trace Context; openzipkin/b3-propagation; the client libraries of Jaeger.
_FORMS = {
    "traceparent": re.compile(r"[^-]{2}-([0-9a-f]{32})-[^-]{16}(?:-|\Z)"),
    "b3": re.compile(r"([0-9a-f]{32}|[0-9a-f]{16})-"),
    "x-b3-traceid": re.compile(r"([0-9a-f]{32}|[0-9a-f]{16})\Z"),
    "uber-trace-id": re.compile(r"([0-9a-f]{1,32})(?::|%3a)"),
}


class InvalidTraceLinks(ValueError):
    """Raised for a text that is no list of link templates; it says what is wrong."""


@dataclass(frozen=True)
class TraceLink:
    """A link template under a name, such as `https://traces.example.org/trace/{trace_id}`."""

    name: str
    template: str

    def filled(self, **values: str | None) -> str | None:
        """Return the link, each value percent-encoded as a whole; None where a value that it needs is not there.

        >>> TraceLink("Logs", "https://l.example/?q={message_id}").filled(message_id="a&b=/..")
        'https://l.example/?q=a%26b%3D%2F..'
        """
        wanted = {name for _, name, _, _ in Formatter().parse(self.template) if name}
        if not all(values.get(name) for name in wanted):
            return None
        return self.template.format(**{name: quote(values[name] or "", safe="") for name in wanted})


def trace_id(headers: Mapping[str, Any]) -> str | None:
    """Return the trace's id as a header has it, in lower case; None where no header names one in a known form.

    >>> trace_id({"Traceparent": "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"})
    '4bf92f3577b34da6a3ce929d0e0e4736'
    >>> trace_id({"traceparent": "javascript:alert(1)", "uber-trace-id": "1f:2:0:1"})
    '1f'
    """
    found: dict[str, str] = {}
    for name, value in headers.items():
        if (form := name.lower()) in _FORMS and form not in found and isinstance(value, str):
            match = _FORMS[form].match(value[:_MAX_CHARS].lower())
            if match and trace_key(match[1]) != _NO_TRACE:
                found[form] = match[1]
    return next((found[form] for form in _FORMS if form in found), None)


def trace_key(found: str) -> str:
    """Return the id in the form in which ids are compared: some systems cut zeros off, or send half of it.

    >>> trace_key("1f")
    '0000000000000000000000000000001f'
    """
    return found.rjust(32, "0")


def parse_links(text: str) -> tuple[TraceLink, ...]:
    """Return the links of a text such as `Logs=https://… Traces=https://…`; raise InvalidTraceLinks.

    >>> [link.name for link in parse_links("Logs=https://l.example/?q={trace_id} Traces=https://t.example/{trace_id}")]
    ['Logs', 'Traces']
    """
    words = text.split()
    if len(words) > MAX_LINKS:
        raise InvalidTraceLinks(f"has at most {MAX_LINKS} links")
    return tuple(_link(word) for word in words)


def _link(word: str) -> TraceLink:
    name, _, template = word.partition("=")
    if not 0 < len(name) <= MAX_NAME_CHARS or not template:
        raise InvalidTraceLinks("must be Name=https://…, separated by blanks")
    try:
        parts = urlsplit(template)
        named = [
            (field, spec, conversion) for _, field, spec, conversion in Formatter().parse(template) if field is not None
        ]
    except ValueError:
        raise InvalidTraceLinks("must be URLs, with placeholders in braces") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "{" in parts.netloc or "@" in parts.netloc:
        raise InvalidTraceLinks("must begin with http:// or https:// and a host")
    if not named or any(one not in [(placeholder, "", None) for placeholder in PLACEHOLDERS] for one in named):
        raise InvalidTraceLinks(f"must have one of {', '.join(f'{{{one}}}' for one in PLACEHOLDERS)}, and no others")
    return TraceLink(name, template)
