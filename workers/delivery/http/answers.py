"""The answer of an HTTP consumer as its attempt has it: the outcome that it asks for in the response header
`PoisonAdmin-Outcome` (R12), without the destination's secrets; or why there is no answer.

`PoisonAdmin-Consumer-Version` says which version of the consumer has answered.
"""

import base64
import binascii
import errno
import ssl
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message

from poisonadmin.core.domain.addresses import ANY_WORDS, InvalidAddress, matches, validate_address
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.groups.domain.failures import (
    DESTINATION_REFUSED,
    HTTP_CONNECTION_ERROR,
    HTTP_PROTOCOL_ERROR,
    HTTP_TIMEOUT,
    HTTP_TLS_ERROR,
    Failure,
)
from poisonadmin.messages.domain.outcomes import Outcome
from workers.delivery.http.connection import ConnectionClosed, NotConnected
from workers.delivery.http.reader import NotHttp
from workers.delivery.http.resolver import AddressRefused, NameNotResolved

HEADER = "PoisonAdmin-Outcome"
VERSION_HEADER = "PoisonAdmin-Consumer-Version"
MAX_HEADER_CHARS = 4096
MAX_CODE = 2**31 - 1

INVALID_ANSWER = "InvalidAnswer"
_OUTCOMES = {
    "discard": (Outcome.DISCARDED, {"why"}),
    "rollback": (Outcome.ROLLED_BACK, {"why"}),
    "move": (Outcome.MOVED, {"address", "why"}),
    "end-conversation": (Outcome.CONVERSATION_ENDED, {"code", "error"}),
}


class InvalidOutcome(PoisonAdminError):
    """Raised when the header asks for something that cannot be done."""

    code = "invalid_outcome"


@dataclass(frozen=True, slots=True)
class ConsumerOutcome:
    """The outcome that a consumer wants for a message. `address` for a move; `error_code` for a conversation's end.

    A conversation that ends without code and `why` ends normally.
    """

    outcome: Outcome
    why: str | None = None
    address: str | None = None
    error_code: int | None = None


def parse_outcome(value: str, *, address: str, owner: str = ANY_WORDS) -> ConsumerOutcome:
    """Return what the header's value asks for, of a message on `address`; raise `InvalidOutcome`.

    `owner`: the pattern of the addresses that the destination may move messages to.

    >>> parse_outcome('move; address="orders.late"', address="orders").address
    'orders.late'
    >>> parse_outcome('end-conversation; code=17; error="no such order"', address="orders").error_code
    17
    """
    if len(value) > MAX_HEADER_CHARS:
        raise InvalidOutcome(f"{HEADER} has more than {MAX_HEADER_CHARS} characters.")
    name, parameters = _parsed(value)
    if name not in _OUTCOMES:
        raise InvalidOutcome(f"{HEADER}: {name[:40]!r} is none of {', '.join(_OUTCOMES)}.")
    outcome, known = _OUTCOMES[name]
    for parameter in parameters:
        if parameter not in known:
            raise InvalidOutcome(f"{HEADER}: {name} has no parameter {parameter[:40]!r}.")
    why = parameters.get("why") or parameters.get("error") or None
    if outcome is Outcome.MOVED:
        return ConsumerOutcome(outcome, why, address=_target(parameters.get("address"), address, owner))
    if outcome is Outcome.CONVERSATION_ENDED:
        return ConsumerOutcome(outcome, why, error_code=_code(parameters.get("code"), has_error=why is not None))
    return ConsumerOutcome(outcome, why)


def _parsed(value: str) -> tuple[str, dict[str, str]]:
    """Return the first word of a header's value, and its parameters, their quotes taken off."""
    message = Message()
    message[HEADER] = value.replace("\r", " ").replace("\n", " ")
    pairs = message.get_params(failobj=[("", "")], header=HEADER)
    texts = [(str(name).strip().lower(), text if isinstance(text, str) else text[-1]) for name, text in pairs]
    return texts[0][0], dict(texts[1:])


def _target(named: str | None, here: str, owner: str) -> str:
    if not named:
        raise InvalidOutcome(f"{HEADER}: move needs an address.")
    try:
        target = validate_address(named)
    except InvalidAddress as error:
        raise InvalidOutcome(f"{HEADER}: address: {error.detail}") from None
    if not matches(owner, target):
        raise InvalidOutcome(f"{HEADER}: {target} is not among the addresses of this destination, {owner}.")
    if target == here:
        raise InvalidOutcome(f"{HEADER}: the message is on {here} already.")
    return target


def _code(text: str | None, *, has_error: bool) -> int | None:
    if text is None:
        return 0 if has_error else None
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_CODE):
        raise InvalidOutcome(f"{HEADER}: code must be a whole number of at most {MAX_CODE}.")
    return int(text) or (0 if has_error else None)


HIDDEN = "[secret]"
# Shorter ones stand in many words: hiding them would tell what they are.
MIN_CHARS = 6


class Hiding:
    """The values of a destination's secret headers, and what to put in their place."""

    def __init__(self, values: Iterable[str]) -> None:
        found = {text for value in values for text in _forms(value) if len(text) >= MIN_CHARS}
        self._texts = sorted(found, key=len, reverse=True)
        # An answer is cut off; so much more of it is to be read that no secret is cut in two.
        self.margin = max((len(text.encode()) for text in self._texts), default=0)

    def in_text(self, text: str) -> str:
        """Return the text without the secrets."""
        for secret in self._texts:
            text = text.replace(secret, HIDDEN)
        return text

    def in_bytes(self, data: bytes, limit: int) -> bytes:
        """Return the first `limit` bytes, without the secrets."""
        for secret in self._texts:
            data = data.replace(secret.encode(), HIDDEN.encode())
        return data[:limit]


def _forms(value: str) -> Iterable[str]:
    """Yield the value of a header and what of it is the credential: behind the scheme, and of `Basic` in plain.

    >>> list(_forms("Basic dXNlcjpwYXNzd29yZA=="))
    ['Basic dXNlcjpwYXNzd29yZA==', 'dXNlcjpwYXNzd29yZA==', 'user:password', 'password']
    >>> list(_forms("Bearer abcdefgh"))
    ['Bearer abcdefgh', 'abcdefgh']
    """
    yield value
    scheme, _, credential = value.partition(" ")
    if credential := credential.strip():
        yield credential
    if scheme.lower() == "basic":
        try:
            plain = base64.b64decode(credential, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield plain
        yield plain.partition(":")[2]


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
