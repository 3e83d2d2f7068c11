"""Why a request has no answer, as the failure that an administrator sees."""

import errno
import ssl
import traceback

from poisonadmin.groups.domain.failures import (
    DESTINATION_REFUSED,
    HTTP_CONNECTION_ERROR,
    HTTP_PROTOCOL_ERROR,
    HTTP_TIMEOUT,
    HTTP_TLS_ERROR,
    Failure,
)
from workers.delivery.http.connection import ConnectionClosed
from workers.delivery.http.head import NotHttp
from workers.delivery.http.pool import NotConnected
from workers.delivery.http.resolver import AddressRefused, NameNotResolved

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
    if isinstance(error, AddressRefused):
        return Failure(DESTINATION_REFUSED, str(error))
    if isinstance(error, TimeoutError) and error.errno is None:  # the kernel's own has a number
        return Failure(HTTP_TIMEOUT, f"{place} gave no answer within {timeout_ms} ms")
    if isinstance(error, NameNotResolved):
        return Failure(HTTP_DNS_ERROR, f"{place} cannot be resolved: {_detail(error)}")
    if isinstance(error, ssl.SSLError):
        return Failure(HTTP_TLS_ERROR, f"TLS with {place} failed: {_detail(error)}")
    if isinstance(error, ConnectionClosed):
        return Failure(HTTP_CONNECTION_RESET, f"{place} closed the connection before it answered")
    if isinstance(error, NotHttp):
        return Failure(HTTP_PROTOCOL_ERROR, f"{place} did not answer in HTTP: {_detail(error)}")
    if isinstance(error, OSError):
        return _connection_failure(error, place)
    stack = "".join(traceback.format_exception(error))
    return Failure(type(error).__qualname__, _detail(error), stack=stack)


def _connection_failure(error: OSError, place: str) -> Failure:
    if error.errno == errno.ECONNREFUSED:
        return Failure(HTTP_CONNECTION_REFUSED, f"{place} refused the connection")
    if error.errno in _LOST and not isinstance(error, NotConnected):
        return Failure(HTTP_CONNECTION_RESET, f"{place} reset the connection before it answered")
    return Failure(HTTP_CONNECTION_ERROR, f"no connection to {place}: {_detail(error)}")


def _detail(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLCertVerificationError):
        text = error.strerror
    else:
        text = str(error)
    return " ".join(text.split())[:_MAX_DETAIL_CHARS] or type(error).__name__
