"""A TCP proxy between a client and a broker that can stop passing on what the broker says, or cut all connections."""

import contextlib
import socket
import threading
from collections.abc import Iterator

_CHUNK = 65536


class Proxy:
    """Listens on a free port of the loopback interface. `port`: where clients connect."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._answers_pass = threading.Event()
        self._answers_pass.set()
        self._sent = 0
        self._cut_after: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow_answers(self) -> None:
        """Keep back what the broker says from now on."""
        self._answers_pass.clear()

    def cut_after(self, byte_count: int) -> None:
        """Cut all connections when clients have sent so many more bytes."""
        self._cut_after = self._sent + byte_count

    def heal(self) -> None:
        """Pass everything on again."""
        self._cut_after = None
        self._answers_pass.set()

    def close(self) -> None:
        """Stop listening, cut everything."""
        self._answers_pass.set()
        self._listener.close()
        self._cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._to_port))
                self._sockets += [client, broker]
                threading.Thread(target=self._pass_on, args=(client, broker, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(broker, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if not is_client:
                    self._answers_pass.wait()
                target.sendall(chunk)
                if is_client:
                    self._sent += len(chunk)
                    if self._cut_after is not None and self._sent >= self._cut_after:
                        break
        if is_client and self._cut_after is not None and self._sent >= self._cut_after:
            self._cut()
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _cut(self) -> None:
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """Yield a proxy to a port of the loopback interface."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
