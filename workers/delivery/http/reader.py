"""An answer as its bytes come in, and how much of it is wanted. Pure."""

from workers.delivery.http.framing import Framing, framing_of
from workers.delivery.http.head import BEGINNING, END_OF_HEAD, MAX_HEAD_BYTES, Head, NotHttp, parse_head

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
