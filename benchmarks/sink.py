"""An HTTP consumer that costs little and remembers when what arrived: `python -m benchmarks.sink`.

Paths: `/ok…` answers 200, `/fail…` 503, `/hang…` never. `GET /__arrivals/<path>` returns and forgets what came there:
`[[message id, attempt, unix seconds], …]`. It prints its ports, plain and TLS, and ends when its standard input does.
"""

import asyncio
import json
import re
import ssl
import sys
import time

import trustme

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_MESSAGE = re.compile(rb"(?i)\r\npoisonadmin-message-id: *(\d+)")
_ATTEMPT = re.compile(rb"(?i)\r\npoisonadmin-attempt: *(\d+)")
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_FAIL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfail"

Arrival = tuple[int, int, float]
arrivals: dict[bytes, list[Arrival]] = {}


class Consumer(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while (end := received.find(b"\r\n\r\n")) >= 0:
            head = bytes(received[:end])
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(received) < whole:
                return
            del received[:whole]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        path = head.split(b" ", 2)[1]
        if path.startswith(b"/__arrivals"):
            body = json.dumps(arrivals.pop(path.removeprefix(b"/__arrivals"), [])).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        message, attempt = _MESSAGE.search(head), _ATTEMPT.search(head)
        arrivals.setdefault(path, []).append(
            (int(message[1]) if message else 0, int(attempt[1]) if attempt else 0, time.time())
        )
        if path.startswith(b"/ok"):
            self._transport.write(_OK)
        elif path.startswith(b"/fail"):
            self._transport.write(_FAIL)


async def _main() -> None:
    loop = asyncio.get_running_loop()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    servers = [await loop.create_server(Consumer, "127.0.0.1", 0, ssl=each, backlog=1024) for each in (None, tls)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
