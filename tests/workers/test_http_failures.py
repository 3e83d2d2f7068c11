"""What each error of a request is recorded as."""

import errno
import ssl

import pytest

from workers.delivery.http.answers import transport_failure
from workers.delivery.http.connection import ConnectionClosed, NotConnected
from workers.delivery.http.reader import NotHttp
from workers.delivery.http.resolver import AddressRefused, NameNotResolved


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (TimeoutError(), "HttpTimeout", "here:1 gave no answer within 300 ms"),
        # The kernel's own, which comes before or after ours.
        (
            TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
            "HttpConnectionError",
            "no connection to here:1: Connection timed out",
        ),
        (AddressRefused("10.0.0.1 is private"), "DestinationRefused", "10.0.0.1 is private"),
        (NameNotResolved(-2, "Name not known"), "HttpDnsError", "here:1 cannot be resolved: Name not known"),
        (ssl.SSLError(1, "wrong version"), "HttpTlsError", "TLS with here:1 failed: wrong version"),
        (ssl.SSLCertVerificationError(1, "bad"), "HttpTlsError", "TLS with here:1 failed: "),
        (ConnectionClosed("gone"), "HttpConnectionReset", "here:1 closed the connection before it answered"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "HttpConnectionReset", "here:1 reset the connection before it"),
        (BrokenPipeError(errno.EPIPE, "x"), "HttpConnectionReset", "here:1 reset the connection before it answered"),
        (NotConnected(errno.ECONNRESET, "lost"), "HttpConnectionError", "no connection to here:1: lost"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "HttpConnectionRefused", "here:1 refused the connection"),
        (OSError(errno.EHOSTUNREACH, "No route"), "HttpConnectionError", "no connection to here:1: No route"),
        (NotHttp("no\nhead"), "HttpProtocolError", "here:1 did not answer in HTTP: no head"),
        (KeyError("ours"), "KeyError", "'ours'"),
    ],
)
def test_an_error_is_a_failure_with_a_class_and_a_text(error: Exception, expected: str, text: str) -> None:
    failure = transport_failure(error, place="here:1", timeout_ms=300)
    assert failure.exception_class == expected
    assert failure.message.startswith(text)
    assert bool(failure.stack) is isinstance(error, KeyError)
