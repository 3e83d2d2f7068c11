"""The head of an answer, from bytes to status and fields (RFC 9112, sections 2 to 5). Pure."""

import re
from typing import NamedTuple

MAX_HEAD_BYTES = 64 * 1024
MAX_FIELDS = 128

BEGINNING = b"HTTP/1."
# A line may end with LF alone (RFC 9112, section 2.2).
END_OF_HEAD = re.compile(rb"\n\r?\n")
# Visible text, spaces, tabs and what older servers send beyond ASCII; no CR, NUL or other control character. A field
# that goes on in a second line (section 5.2) does not match either.
_TEXT = rb"[\t -~\x80-\xff]*+"
_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: (%b))?\r?\n((?:[!#$%%&'*+\-.^_`|~0-9A-Za-z]++:%b\r?\n)*+)\r?\n\Z"
    % (_TEXT, _TEXT)
)
_LISTS = {"connection", "transfer-encoding"}


class NotHttp(ValueError):
    """Raised when a server answers in something else than HTTP/1."""


class Head(NamedTuple):
    """Status and fields. `fields`: by lower-case name; of a name that is there twice the first value."""

    minor_version: int
    status: int
    reason: str
    fields: dict[str, str]

    @property
    def keeps_connection(self) -> bool:
        """True where the server lets the connection be used for another request (RFC 9112, section 9.3)."""
        wanted = self.fields.get("connection")
        if wanted is None:
            return self.minor_version == 1
        options = {option.strip().lower() for option in wanted.split(",")}
        return "close" not in options and (self.minor_version == 1 or "keep-alive" in options)


def parse_head(head: bytes) -> Head:
    """Return the head that these bytes are, the empty line included; raise NotHttp.

    >>> parse_head(b"HTTP/1.1 404 Not Found\\r\\nRetry-After: 7\\r\\n\\r\\n")
    Head(minor_version=1, status=404, reason='Not Found', fields={'retry-after': '7'})
    """
    found = _HEAD.match(head)
    if found is None:
        raise NotHttp("the head of the answer is malformed")
    minor_version, status, reason, lines = found.groups()
    fields: dict[str, str] = {}
    each = _decoded(lines).split("\n")
    if len(each) > MAX_FIELDS + 1:
        raise NotHttp(f"the answer has more than {MAX_FIELDS} header fields")
    for line in each[:-1]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t\r")
        if name not in fields:
            fields[name] = value
        elif name == "content-length":
            raise NotHttp("the answer has more than one Content-Length")
        elif name in _LISTS:
            fields[name] += f", {value}"
    return Head(int(minor_version), int(status), _decoded(reason or b"").strip(), fields)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
