"""A TCP proxy between clients and a broker that keeps back or changes what they say, or cuts all connections."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator

_CHUNK = 65536


class Proxy:
    """Listens on the loopback interface. `port`: where clients connect, a free one unless it is told."""

    def __init__(self, to_port: int, port: int = 0) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._answers_pass = threading.Event()
        self._answers_pass.set()
        self._held_back: re.Pattern[bytes] | None = None
        self._is_broker_held = False
        self._last_answered: re.Pattern[bytes] | None = None
        self._changed: tuple[re.Pattern[bytes], bytes, bytes] | None = None
        self._is_changing = False
        self.is_holding = threading.Event()
        self._sent = 0
        self._cut_after: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def hold_back(self, said: bytes | re.Pattern[bytes], *, by_broker: bool = False) -> None:
        """Keep back what clients, or the broker, say from the first time on that they say this; sets `is_holding`."""
        self._is_broker_held = by_broker
        self.is_holding.clear()
        self._held_back = re.compile(re.escape(said)) if isinstance(said, bytes) else said

    def hold_answers_to(self, said: re.Pattern[bytes]) -> None:
        """Keep back what the broker says from the first time on that clients say this; sets `is_holding`."""
        self.is_holding.clear()
        self._last_answered = said

    def change_answers_from(self, said: re.Pattern[bytes], before: bytes, after: bytes) -> None:
        """Have the broker say `after`, of one length, for `before` from the first time on that clients say this."""
        assert len(before) == len(after)
        self._changed = (said, before, after)

    def cut_after(self, byte_count: int) -> None:
        """Cut all connections when clients have sent so many more bytes."""
        self._cut_after = self._sent + byte_count

    def heal(self) -> None:
        """Pass everything on again."""
        self._cut_after = self._held_back = self._last_answered = None
        self.is_holding.clear()
        self._answers_pass.set()

    def _as_changed(self, chunk: bytes, is_client: bool) -> bytes:
        if self._changed is None:
            return chunk
        said, before, after = self._changed
        if is_client:
            self._is_changing = self._is_changing or said.search(chunk) is not None
        return chunk.replace(before, after) if self._is_changing and not is_client else chunk

    def _is_held(self, chunk: bytes, is_client: bool) -> bool:
        held = self._held_back
        return held is not None and self._is_broker_held is not is_client and held.search(chunk) is not None

    def cut(self) -> None:
        """Cut all connections; what was kept back is lost."""
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening, cut everything."""
        self._answers_pass.set()
        self._held_back = None
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else who accepts keeps the port
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._to_port))
                except OSError:  # it is killed just now
                    client.close()
                    continue
                self._sockets += [client, broker]
                threading.Thread(target=self._pass_on, args=(client, broker, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(broker, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if not is_client:
                    self._answers_pass.wait()
                if self._is_held(chunk, is_client):
                    self.is_holding.set()
                    while self._held_back is not None:
                        time.sleep(0.01)
                    break
                if is_client and self._last_answered is not None and self._last_answered.search(chunk):
                    self._answers_pass.clear()
                    self.is_holding.set()
                target.sendall(self._as_changed(chunk, is_client))
                if is_client:
                    self._sent += len(chunk)
                    if self._cut_after is not None and self._sent >= self._cut_after:
                        break
        if is_client and self._cut_after is not None and self._sent >= self._cut_after:
            self.cut()
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def proxy_to(to_port: int, *, port: int = 0) -> Iterator[Proxy]:
    """Yield a proxy to a port of the loopback interface, on a free port unless it is told."""
    proxy = Proxy(to_port, port)
    try:
        yield proxy
    finally:
        proxy.close()
