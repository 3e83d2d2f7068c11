"""Real receivers of alerts: an HTTP server that answers as it is asked to, and a mail server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller

from poisonadmin.embedded.ports import free_port


@dataclass
class Request:
    """What was received: the headers by lower-case name, and the body as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`statuses`: of the next answers; 204 when there are none left. `headers`: of every answer."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""
    requests: list[Request] = field(default_factory=list)
    lets_answer: threading.Event = field(default_factory=threading.Event)


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    """Serve until the end."""
    receiver = Receiver()
    receiver.lets_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(Request(self.path, headers, body))
            receiver.lets_answer.wait(30)
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(receiver.answer)))
            self.end_headers()
            self.wfile.write(receiver.answer)

        def log_message(self, *args: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hooks?from=poisonadmin"
        try:
            yield receiver
        finally:
            receiver.lets_answer.set()
            server.shutdown()


@dataclass
class MailServer:
    """`mails`: as they were handed in, with their recipients. `refuses`: how many of the next are refused for now."""

    port: int = 0
    refuses: int = 0
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802  (aiosmtpd's name)
        """Take a mail, or refuse it for now."""
        if self.refuses:
            self.refuses -= 1
            return "451 try again later"
        mail = BytesParser(policy=default).parsebytes(envelope.original_content)
        assert isinstance(mail, EmailMessage)
        self.mails.append((list(envelope.rcpt_tos), mail))
        return "250 taken"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """Serve until the end."""
    served = MailServer(free_port())
    controller = Controller(served, hostname="127.0.0.1", port=served.port)
    controller.start()
    try:
        yield served
    finally:
        controller.stop()
