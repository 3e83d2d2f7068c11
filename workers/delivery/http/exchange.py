"""An HTTP destination as a task uses it; one request and its answer, or why there is none."""

import asyncio
import contextlib
import errno
import io
import ssl
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import (
    COPIED_BY_DEFAULT,
    DEFAULTS,
    CopyList,
    field_text,
    is_sendable,
    validate_headers,
    validate_http_config,
)
from poisonadmin.messages.domain.failures import (
    DESTINATION_REFUSED,
    HTTP_CONNECTION_ERROR,
    HTTP_PROTOCOL_ERROR,
    HTTP_TIMEOUT,
    HTTP_TLS_ERROR,
    Failure,
    http_status_failure,
)
from workers.delivery.deliveries import Delivery
from workers.delivery.http.answers import HEADER, ConsumerOutcome, InvalidOutcome, parse_outcome
from workers.delivery.http.hiding import Hiding
from workers.delivery.http.resolver import AddressRefused, GuardedResolver, Lookup, guarded_socket, system_lookup

INVALID_ANSWER = "InvalidAnswer"
HTTP_CONNECTION_REFUSED = "HttpConnectionRefused"
HTTP_CONNECTION_RESET = "HttpConnectionReset"
HTTP_DNS_ERROR = "HttpDnsError"

_LOST = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN}
_MAX_DETAIL_CHARS = 300
KEPT_BYTES = 4096
# A longer answer costs its connection: reading it to the end would let a destination choose how long that takes.
READ_BYTES = 64 * 1024
# The status has decided by now; the rest of the answer is only for the failure log.
BODY_SECONDS = 2.0
# Below the 2 to 5 seconds after which servers commonly drop an idle connection, perhaps while we write to it.
KEEP_ALIVE_SECONDS = 1.5
_LARGE_BYTES = 256 * 1024
_FALLBACK_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class HttpDestination:
    """Where to send and how. `concurrency`: requests at once in this task. `headers` include the secret ones, whose
    values are the `secret_values`.

    `owner`: the pattern of the addresses that its consumer may move messages to. `broken`: why the configuration cannot
    be used; each delivery then fails with that.
    """

    id: int
    name: str
    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_values: tuple[str, ...] = field(default=(), repr=False)
    timeout_ms: int = 30_000
    concurrency: int = 64
    verify_tls: bool = True
    copy_headers: tuple[str, ...] = COPIED_BY_DEFAULT
    crash_on: str | None = None
    owner: str = ANY_WORDS
    broken: str | None = None


def parse_http_config(
    config: Mapping[str, Any],
    secrets: Mapping[str, Any] | None = None,
    *,
    id: int = 0,  # noqa: A002
    name: str = "",
    owner: str = ANY_WORDS,
    concurrency: int | None = None,
) -> HttpDestination:
    """Return the destination; raise InvalidDestination naming the field that cannot be used.

    `secrets` are further headers, which win over those of the configuration. `concurrency`: this task's share of the
    configured one.
    """
    wanted = DEFAULTS | validate_http_config(config)
    hidden = validate_headers(secrets or {}, field="secrets")
    secret_names = {name.lower() for name in hidden}
    shown = {name: value for name, value in wanted["headers"].items() if name.lower() not in secret_names}
    return HttpDestination(
        id=id,
        name=name,
        url=wanted["url"],
        method=wanted["method"],
        headers=shown | hidden,
        secret_values=tuple(hidden.values()),
        timeout_ms=wanted["timeout_ms"],
        concurrency=wanted["concurrency"] if concurrency is None else concurrency,
        verify_tls=wanted["verify_tls"],
        copy_headers=tuple(wanted["copy_headers"]),
        crash_on=wanted["crash_on"],
        owner=owner,
    )


def _transport_failure(error: BaseException, *, place: str, timeout_ms: int) -> Failure:
    """Return the failure of a request that ended without a status.

    `place` is host and port. An error that the transport does not explain is kept with its stack: it may be ours, and
    the message must not go round for ever because of it.
    """
    if (refused := _refusal(error)) is not None:
        return Failure(DESTINATION_REFUSED, str(refused))
    if isinstance(error, asyncio.TimeoutError):
        return Failure(HTTP_TIMEOUT, f"{place} gave no answer within {timeout_ms} ms")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Failure(HTTP_DNS_ERROR, f"{place} cannot be resolved: {_detail(error.os_error)}")
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return Failure(HTTP_TLS_ERROR, f"TLS with {place} failed: {_detail(error)}")
    if isinstance(error, aiohttp.ClientConnectorError):
        return _connection_failure(error.os_error, place)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return Failure(HTTP_CONNECTION_RESET, f"{place} closed the connection before it answered")
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.http_exceptions.HttpProcessingError):
        return Failure(HTTP_PROTOCOL_ERROR, f"{place} did not answer in HTTP: {_detail(error)}")
    if isinstance(error, OSError):
        return _connection_failure(error, place)
    stack = "".join(traceback.format_exception(error))
    return Failure(type(error).__qualname__, _detail(error), stack=stack)


def _connection_failure(error: OSError, place: str) -> Failure:
    if error.errno == errno.ECONNREFUSED:
        return Failure(HTTP_CONNECTION_REFUSED, f"{place} refused the connection")
    if error.errno in _LOST:
        return Failure(HTTP_CONNECTION_RESET, f"{place} reset the connection before it answered")
    return Failure(HTTP_CONNECTION_ERROR, f"no connection to {place}: {_detail(error)}")


def _refusal(error: BaseException) -> AddressRefused | None:
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return inner if isinstance(inner, AddressRefused) else None


def _detail(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        text = error.message
    elif isinstance(error, aiohttp.ClientConnectorCertificateError):
        text = str(error.certificate_error)
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror
    else:
        text = str(error)
    return " ".join(text.split())[:_MAX_DETAIL_CHARS] or type(error).__name__


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back: a status where there was one, else the failure says why not.

    `outcome`: what the consumer wants done, whatever the status says. `retry_after` is as it was sent.
    """

    status: int | None = None
    failure: Failure | None = None
    retry_after: str | None = None
    body: bytes | None = None
    outcome: ConsumerOutcome | None = None


class Exchange:
    """The connections of one run to one destination; close it when the run ends."""

    def __init__(self, destination: HttpDestination, guard: NetworkGuard, lookup: Lookup = system_lookup) -> None:
        self._owner = destination.owner
        self._hiding = Hiding(destination.secret_values)
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
                "PoisonAdmin-Delivery-Count": str(delivery.delivery_count),
                "PoisonAdmin-Redelivered": "true" if delivery.is_redelivered else "false",
                "PoisonAdmin-Address": field_text(delivery.address),
                "PoisonAdmin-Producer-Message-Id": field_text(delivery.producer_message_id),
                "Content-Type": _content_type(delivery.content_type),
            }
        )
        if delivery.conversation_id is not None:
            fields["PoisonAdmin-Conversation-Id"] = field_text(delivery.conversation_id)
        for name, value in delivery.origin.items():
            fields[name] = field_text(value)
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
            failure = _transport_failure(error, place=self._place, timeout_ms=self._timeout_ms)
            message, stack = self._hiding.in_text(failure.message), self._hiding.in_text(failure.stack)
            return HttpAnswer(failure=replace(failure, message=message, stack=stack))
        status = response.status
        if (wanted := response.headers.get(HEADER)) is not None:
            return await self._answered(response, wanted, delivery)
        if 200 <= status < 300:
            await self._read(response)
            return HttpAnswer(status=status)
        answer = await self._read(response)
        reason, excerpt = (self._hiding.in_text(text) for text in (response.reason or "", _excerpt(response, answer)))
        return HttpAnswer(
            status=status,
            failure=http_status_failure(status, reason, excerpt),
            retry_after=response.headers.get("Retry-After"),
            body=answer,
        )

    async def _answered(self, response: aiohttp.ClientResponse, wanted: str, delivery: Delivery) -> HttpAnswer:
        body = await self._read(response)
        try:
            outcome = parse_outcome(self._hiding.in_text(wanted), address=delivery.address, owner=self._owner)
        except InvalidOutcome as error:
            return HttpAnswer(status=response.status, failure=Failure(INVALID_ANSWER, error.detail), body=body)
        return HttpAnswer(status=response.status, body=body, outcome=outcome)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """Return the first 4 kB of the body, the secrets hidden."""
        return self._hiding.in_bytes(await _start_of(response, KEPT_BYTES + self._hiding.margin), KEPT_BYTES)


async def _start_of(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the first bytes of the body; afterwards the connection is free again, or closed if there was too much."""
    content = response.content
    kept = b""
    seen = 0
    with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError, OSError):
        if content.is_eof():
            kept = content.read_nowait()[:most]
        else:
            async with asyncio.timeout(BODY_SECONDS):
                while seen < READ_BYTES and (piece := await content.readany()):
                    kept += piece[: most - len(kept)]
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
