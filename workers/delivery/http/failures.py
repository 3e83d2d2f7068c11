"""What went wrong with a request, as the failure that an administrator reads."""

import asyncio
import errno
import ssl
import traceback

import aiohttp

from poisonadmin.messages.domain.failures import (
    DESTINATION_REFUSED,
    HTTP_CONNECTION_ERROR,
    HTTP_PROTOCOL_ERROR,
    HTTP_TIMEOUT,
    HTTP_TLS_ERROR,
    Failure,
)
from workers.delivery.http.resolver import AddressRefused

HTTP_CONNECTION_REFUSED = "HttpConnectionRefused"
HTTP_CONNECTION_RESET = "HttpConnectionReset"
HTTP_DNS_ERROR = "HttpDnsError"

_LOST = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN}
_MAX_DETAIL_CHARS = 300


def transport_failure(error: BaseException, *, place: str, timeout_ms: int) -> Failure:
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
