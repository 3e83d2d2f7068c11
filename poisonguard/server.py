"""Requests to PoisonAdmin: no redirects, no proxies, no answer believed to be endless; the token is never logged."""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from poisonguard.errors import Unreachable

FIRST_SECONDS = 0.2
MOST_SECONDS = 30.0
REQUEST_SECONDS = 10.0
# The server sends a comment every 10 s.
SILENCE_SECONDS = 35.0
MAX_ANSWER_BYTES = 1024 * 1024
API = "/api/v1"


class Backoff:
    """Waits that double from 0.2 s to 30 s, each one drawn between its half and itself.

    The draw keeps a hundred consumers from coming back in the same moment.
    """

    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def reset(self) -> None:
        """Begin again: there was an answer."""
        self._next = FIRST_SECONDS

    def seconds(self, at_least: float = 0.0) -> float:
        """Return the next wait; `at_least` is the server's own word (Retry-After), heeded up to 30 s."""
        wait = random.uniform(self._next / 2, self._next)
        self._next = min(self._next * 2, MOST_SECONDS)
        return max(wait, min(at_least, MOST_SECONDS))


class Answer(NamedTuple):
    """An answer of the server. `retry_after`: for how many seconds it asks to be left alone."""

    status: int
    body: dict[str, Any]
    retry_after: float

    def is_temporary(self, statuses: frozenset[int]) -> bool:
        """Return whether the request is to be sent again: after a redirect, a server's error, one of these statuses."""
        return self.status in statuses or self.status >= 500 or 300 <= self.status < 400


class Server:
    """One PoisonAdmin, by its address and a token of it."""

    def __init__(self, url: str, token: str, context: ssl.SSLContext | None = None) -> None:
        """Check the address; raise ValueError. `context`: how TLS is verified; by default as the system does."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not the address of a PoisonAdmin, such as https://poison.example.org")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the address holds a login; give the token instead")
        if not token or not (token.isascii() and token.isprintable()) or " " in token:
            raise ValueError("the token is empty, or holds what no token has")
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/") + API
        self._headers = {"Authorization": f"Bearer {token}", "Connection": "close", "User-Agent": "poisonguard"}
        self._tls = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}"

    def report(self, body: dict[str, Any], key: str) -> Answer:
        """Send a report. The same key again is counted once. Raise Unreachable."""
        return self._post("/poison-list/", body, {"Idempotency-Key": key})

    def heartbeat(self, consumer: str, body: dict[str, Any]) -> Answer:
        """Say that a consumer lives, or has ended. Raise Unreachable."""
        return self._post(f"/nodes/{quote(consumer, safe='')}/heartbeat/", body, {})

    def confirm(self, message_id: int, attempt: int | None) -> Answer:
        """Say that a message of PoisonAdmin's is processed; again changes nothing. Raise Unreachable."""
        return self._post(f"/messages/{message_id}/confirm/", {"attempt": attempt}, {})

    @contextmanager
    def events(self, source: str) -> Iterator[Stream]:
        """Follow the poison list of a source. Raise Unreachable."""
        connection = self._connection(SILENCE_SECONDS)
        try:
            path = f"{self._base}/poison-list/events/?{urlencode({'source': source})}"
            connection.request("GET", path, headers={**self._headers, "Accept": "text/event-stream"})
            # Taken now: the connection hands it over to the response, which does not show it.
            raw = connection.sock
            yield Stream(raw, connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(_detail(error)) from error
        finally:
            connection.close()

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        connection = self._connection(REQUEST_SECONDS)
        try:
            content = json.dumps(body).encode()
            given = {**self._headers, **headers, "Content-Type": "application/json"}
            connection.request("POST", self._base + path, content, given)
            return _answer_of(connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(_detail(error)) from error
        finally:
            connection.close()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)


class Stream:
    """An answer that goes on."""

    def __init__(self, raw: socket.socket, response: http.client.HTTPResponse) -> None:
        self._socket = raw
        self._response = response
        self.status = response.status

    def line(self) -> bytes:
        """Return the next line with its end; empty when the stream has ended. Raise OSError, HTTPException."""
        return self._response.readline(MAX_ANSWER_BYTES)

    def answer(self) -> Answer:
        """Return an answer that is no stream after all."""
        return _answer_of(self._response)

    def cut(self) -> None:
        """End the stream from another thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _answer_of(response: http.client.HTTPResponse) -> Answer:
    raw = response.read(MAX_ANSWER_BYTES)
    retry_after = response.headers.get("Retry-After", "")
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    return Answer(response.status, json_object(raw), seconds)


def json_object(raw: str | bytes) -> dict[str, Any]:
    """Return a JSON object; what is none counts as an empty one."""
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _detail(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
