"""An answer as its bytes come in: its head as status and fields (RFC 9112, sections 2 to 5), its body as far as wanted.

Pure.
"""

import re
from abc import ABC, abstractmethod
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


_NO_BODY = {101, 204, 304}
_LENGTH = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00\n]*)?\r?\n\Z")


class Framing(ABC):
    """Takes a body's bytes as they come. `has_surplus`: something came after its end."""

    def __init__(self, *, is_complete: bool = False) -> None:
        self.is_complete = is_complete
        self.has_surplus = False

    @abstractmethod
    def feed(self, data: bytes) -> bytes:
        """Return what of this is the body's content; raise NotHttp."""

    def end(self) -> None:  # noqa: B027  (most bodies do not end with their connection)
        """Note that the server has closed the connection."""


class Sized(Framing):
    """A body of a length that was stated."""

    def __init__(self, length: int) -> None:
        super().__init__(is_complete=length == 0)
        self._left = length

    def feed(self, data: bytes) -> bytes:
        content = data if len(data) <= self._left else data[: self._left]
        self._left -= len(content)
        self.is_complete = self._left == 0
        self.has_surplus = self.has_surplus or len(content) < len(data)
        return content


class UntilClosed(Framing):
    """A body that ends with its connection."""

    def feed(self, data: bytes) -> bytes:
        return data

    def end(self) -> None:
        self.is_complete = True


class Chunked(Framing):
    """A body in chunks, each with its size before it; fields after the last one are passed over."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = b""
        self._left = 0
        self._expected = self._size

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        at = 0
        content = []
        while not self.is_complete:
            if self._left:
                piece = data[at : at + self._left]
                content.append(piece)
                at += len(piece)
                self._left -= len(piece)
            end = data.find(b"\n", at) + 1
            if self._left or end == 0:
                break
            self._expected(data[at:end])
            at = end
        self._rest = b"" if self.is_complete else data[at:]
        self.has_surplus = self.has_surplus or (self.is_complete and at < len(data))
        return b"".join(content)

    def _size(self, line: bytes) -> None:
        found = _CHUNK_SIZE.match(line)
        if found is None:
            raise NotHttp("a chunk of the answer has no valid size")
        self._left = int(found[1], 16)
        self._expected = self._end_of_chunk if self._left else self._trailer

    def _end_of_chunk(self, line: bytes) -> None:
        if line not in (b"\r\n", b"\n"):
            raise NotHttp("a chunk of the answer is longer than it says")
        self._expected = self._size

    def _trailer(self, line: bytes) -> None:
        self.is_complete = line in (b"\r\n", b"\n")


def framing_of(head: Head) -> Framing:
    """Return how the body after this head ends; raise NotHttp where the head contradicts itself."""
    encoding = head.fields.get("transfer-encoding")
    length = head.fields.get("content-length")
    if encoding is not None and length is not None:
        raise NotHttp("the answer has both Content-Length and Transfer-Encoding")
    if length is not None and not _LENGTH.match(length):
        raise NotHttp("the Content-Length of the answer is not a number")
    if head.status in _NO_BODY:
        return Sized(0)
    if encoding is not None:
        return Chunked() if encoding.rpartition(",")[2].strip().lower() == "chunked" else UntilClosed()
    return UntilClosed() if length is None else Sized(int(length))


# A longer answer costs its connection: reading it to the end would let a destination choose how long that takes.
READ_BYTES = 64 * 1024
MAX_INTERIM_ANSWERS = 16
_SWITCHING_PROTOCOLS = 101


class IncomingAnswer:
    """One answer. `head`: None until it is there; `kept`: the first bytes of its body, `keep` at most."""

    __slots__ = ("_bytes", "_framing", "_interim", "_keep", "_searched", "_seen", "head", "kept")

    def __init__(self, *, keep: int) -> None:
        self._keep = keep
        self.head: Head | None = None
        self.kept = b""
        self._bytes = b""
        self._searched = 0
        self._interim = 0
        self._seen = 0
        self._framing: Framing | None = None

    @property
    def is_read(self) -> bool:
        """True when nothing more is wanted: the body has ended, or is longer than what is read of one."""
        return self._framing is not None and (self._framing.is_complete or self._seen >= READ_BYTES)

    @property
    def is_clean(self) -> bool:
        """True where another answer may follow on its connection."""
        if self.head is None or self._framing is None or not self._framing.is_complete or self._framing.has_surplus:
            return False
        return self.head.status != _SWITCHING_PROTOCOLS and self.head.keeps_connection

    def feed(self, data: bytes) -> None:
        """Take what has come in; raise NotHttp. After that, and once `is_read`, nothing more may be fed."""
        if self._framing is None:
            data = self._after_head(data)
        if self._framing is not None and data:
            self._seen += len(data)
            content = self._framing.feed(data)
            if len(self.kept) < self._keep:
                self.kept += content[: self._keep - len(self.kept)]

    def end(self) -> None:
        """Note that the server has closed the connection."""
        if self._framing is not None:
            self._framing.end()

    def _after_head(self, data: bytes) -> bytes:
        """Return what follows the head in what has come in; while that is not whole, nothing."""
        self._bytes = self._bytes + data if self._bytes else data
        while self._framing is None:
            if not self._bytes.startswith(BEGINNING[: len(self._bytes)]):
                raise NotHttp("the answer does not begin with HTTP/1")
            end = END_OF_HEAD.search(self._bytes, self._searched)
            if (len(self._bytes) if end is None else end.end()) > MAX_HEAD_BYTES:
                raise NotHttp(f"the head of the answer is longer than {MAX_HEAD_BYTES} bytes")
            if end is None:
                self._searched = max(0, len(self._bytes) - len(b"\n\r"))
                return b""
            self._take(parse_head(self._bytes[: end.end()]))
            self._bytes, self._searched = self._bytes[end.end() :], 0
        data, self._bytes = self._bytes, b""
        return data

    def _take(self, head: Head) -> None:
        """Take a head; one that only says that the answer will come, such as 100 or 103, is passed over."""
        if head.status < 200 and head.status != _SWITCHING_PROTOCOLS:
            self._interim += 1
            if self._interim > MAX_INTERIM_ANSWERS:
                raise NotHttp(f"more than {MAX_INTERIM_ANSWERS} interim answers came before the answer")
            return
        self._framing = framing_of(head)
        self.head = head
