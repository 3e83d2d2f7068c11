"""A TCP proxy that lets a stream pass up to a mark, and the rest once it is opened."""

import contextlib
import socket
import threading


class HoldingProxy:
    """`is_reached` is set when a stream has come to the mark; `open()` lets it through."""

    def __init__(self, port: int, mark: bytes = b"event: loaded") -> None:
        self._to = port
        self._mark = mark
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.is_reached = threading.Event()
        self._is_open = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def open(self) -> None:
        """Let everything pass from now on."""
        self._is_open.set()

    def close(self) -> None:
        """Take no more connections."""
        self._is_open.set()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=_pass_on, args=(near, far), daemon=True).start()
                threading.Thread(target=self._pass_back, args=(far, near), daemon=True).start()

    def _pass_back(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError), source, target:
            while content := source.recv(65536):
                if self._mark in content:
                    before, mark, after = content.partition(self._mark)
                    target.sendall(before)
                    self.is_reached.set()
                    self._is_open.wait()
                    content = mark + after
                target.sendall(content)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
