"""One request and its answer."""

import asyncio
import contextlib
import io
from dataclasses import dataclass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_headers import CopyList, field_text, is_sendable
from poisonadmin.messages.domain.failures import Failure, http_status_failure
from workers.delivery.deliveries import Delivery
from workers.delivery.http.destination import HttpDestination
from workers.delivery.http.failures import transport_failure
from workers.delivery.http.resolver import GuardedResolver, Lookup, guarded_socket, system_lookup

KEPT_BYTES = 4096
# A longer answer costs its connection: reading it to the end would let a destination choose how long that takes.
READ_BYTES = 64 * 1024
# The status has decided by now; the rest of the answer is only for the failure log.
BODY_SECONDS = 2.0
# Below the 2 to 5 seconds after which servers commonly drop an idle connection, perhaps while we write to it.
KEEP_ALIVE_SECONDS = 1.5
_LARGE_BYTES = 256 * 1024

_FALLBACK_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back: a status where there was one, else the failure says why not. `retry_after` is as it was sent."""

    status: int | None = None
    failure: Failure | None = None
    retry_after: str | None = None
    body: bytes | None = None


class Exchange:
    """The connections of one run to one destination; close it when the run ends."""

    def __init__(self, destination: HttpDestination, guard: NetworkGuard, lookup: Lookup = system_lookup) -> None:
        self._timeout_ms = destination.timeout_ms
        self._method = destination.method
        self._url = URL(destination.url)
        self._place = f"{self._url.host}:{self._url.port}"
        self._copies = CopyList(destination.copy_headers).copies
        self._set_here = frozenset(name.lower() for name in destination.headers)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                ssl=destination.verify_tls,
                resolver=GuardedResolver(guard, lookup),
                socket_factory=guarded_socket(guard),
                keepalive_timeout=KEEP_ALIVE_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A compressed answer is kept as it came: nothing here unpacks what a stranger sent.
            auto_decompress=False,
            headers={"User-Agent": "PoisonAdmin", "Accept-Encoding": "identity", **destination.headers},
            timeout=aiohttp.ClientTimeout(total=destination.timeout_ms / 1000, ceil_threshold=float("inf")),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def request_headers(self, delivery: Delivery) -> CIMultiDict[str]:
        """Return the fields of this delivery: ours, the content type, and what the destination lets through."""
        fields = CIMultiDict(
            {
                "PoisonAdmin-Message-Id": str(delivery.message_id),
                "PoisonAdmin-Attempt": str(delivery.attempt_number),
                "PoisonAdmin-Address": field_text(delivery.address),
                "PoisonAdmin-Producer-Message-Id": field_text(delivery.producer_message_id),
                "Content-Type": _content_type(delivery.content_type),
            }
        )
        if delivery.conversation_id is not None:
            fields["PoisonAdmin-Conversation-Id"] = field_text(delivery.conversation_id)
        for name, value in delivery.headers.items():
            if self._copies(name) and name.lower() not in self._set_here and is_sendable(name, value):
                fields[name] = value.strip()
        return fields

    async def post(self, delivery: Delivery) -> HttpAnswer:
        """Send the delivery and return the answer; never raises but for cancellation."""
        payload = delivery.payload
        # aiohttp writes bytes in one go; a large payload goes piece by piece, so that other requests get their turn.
        body = payload if len(payload) < _LARGE_BYTES else io.BytesIO(payload)
        try:
            response = await self._session.request(
                self._method,
                self._url,
                data=body,
                headers=self.request_headers(delivery),
                allow_redirects=False,
            )
        except Exception as error:  # whatever it is, it is this attempt's outcome
            return HttpAnswer(failure=transport_failure(error, place=self._place, timeout_ms=self._timeout_ms))
        status = response.status
        if 200 <= status < 300:
            await _read(response)
            return HttpAnswer(status=status)
        answer = await _read(response)
        return HttpAnswer(
            status=status,
            failure=http_status_failure(status, response.reason or "", _excerpt(response, answer)),
            retry_after=response.headers.get("Retry-After"),
            body=answer,
        )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the first 4 kB of the body; afterwards the connection is free again, or closed if there was too much."""
    content = response.content
    kept = b""
    seen = 0
    with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError, OSError):
        if content.is_eof():
            kept = content.read_nowait()[:KEPT_BYTES]
        else:
            async with asyncio.timeout(BODY_SECONDS):
                while seen < READ_BYTES and (piece := await content.readany()):
                    kept += piece[: KEPT_BYTES - len(kept)]
                    seen += len(piece)
    if content.is_eof():
        response.release()
    else:
        response.close()
    return kept


def _excerpt(response: aiohttp.ClientResponse, body: bytes) -> str:
    if 300 <= response.status < 400:
        return f"redirects are not followed (to {response.headers.get('Location', 'nowhere')})"
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return ""
    return body.decode("utf-8", "replace")


def _content_type(text: str) -> str:
    return text if text.isascii() and text.isprintable() and text else _FALLBACK_TYPE
