"""What a handler prints goes into the page, where it outlives the sandbox."""

import io
import os
from typing import Any


class Printed(io.TextIOBase):
    """Takes the place of `sys.stdout` and `sys.stderr`: what is printed goes into the page."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._pid = os.getpid()
        self.buffer = PrintedBytes(self)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.write_bytes(text.encode("utf-8", "replace"))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Keep the bytes, unless a process that a handler has forked prints them."""
        if os.getpid() == self._pid:
            self._page.note_output(data)


class PrintedBytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, printed: Printed) -> None:
        self._printed = printed

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._printed.write_bytes(bytes(data))
        return len(data)
