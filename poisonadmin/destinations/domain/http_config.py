"""The configuration of an HTTP destination, checked in one place for API, dashboard and delivery."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from poisonadmin.core.domain import settings
from poisonadmin.core.domain.durations import duration
from poisonadmin.core.domain.errors import InvalidField
from poisonadmin.core.domain.settings import InvalidValue, checked_config, flag, one_of, whole
from poisonadmin.core.domain.ssrf import NetworkGuard, odd_spelling

TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")  # RFC 9110, section 5.6.2
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

OWN_PREFIX = "poisonadmin-"
_FRAMING = frozenset(
    {
        "connection", "content-length", "content-type", "expect", "host", "http2-settings", "keep-alive", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_CALLER = frozenset(
    {
        "authorization", "cookie", "cookie2", "set-cookie", "x-amz-security-token", "x-api-key", "x-auth-token",
        "x-csrf-token",
    }
)  # fmt: skip
_ORIGIN = frozenset(
    {
        "forwarded", "via", "x-client-ip", "x-http-method-override", "x-original-url", "x-real-ip", "x-rewrite-url",
    }
)  # fmt: skip
_NEVER = _FRAMING | _CALLER | _ORIGIN
_NEVER_PREFIXES = (OWN_PREFIX, "proxy-", "x-forwarded-")

# A name, or the beginning of one and an asterisk.
COPIED_BY_DEFAULT = (
    "x-*", "ce-*", "webhook-*", "traceparent", "tracestate", "baggage", "correlation-id", "content-encoding",
    "content-language", "idempotency-key",
)  # fmt: skip
METHODS = ("POST", "PUT", "PATCH")
MAX_URL_CHARS = 2048
MAX_HEADERS = 50
CONNECTION_LOST = "connection_lost"


def is_sendable(name: str, value: str) -> bool:
    """Return whether a field can be written without changing what is around it: no CR, LF, NUL or other control.

    >>> is_sendable("X-Kind", "push"), is_sendable("X-Kind", "a\\r\\nX-Admin: 1"), is_sendable("X Kind", "push")
    (True, False, False)
    """
    return TOKEN.match(name) is not None and _UNSENDABLE.search(value) is None


def is_reserved(name: str) -> bool:
    """Return whether nobody may set this field: it frames the request, or is ours."""
    lower = name.lower()
    return lower in _FRAMING or lower.startswith((OWN_PREFIX, "proxy-"))


def names_caller(name: str) -> bool:
    """Return whether a header of this name says who calls: its value is a credential, and kept as a secret.

    >>> names_caller("X-Api-Key"), names_caller("X-Tenant")
    (True, False)
    """
    return name.lower() in _CALLER


class CopyList:
    """A destination's list of header fields that are copied; the decision on a name is remembered."""

    def __init__(self, patterns: Iterable[str] = COPIED_BY_DEFAULT) -> None:
        lower = [pattern.lower() for pattern in patterns]
        self._names = frozenset(pattern for pattern in lower if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in lower if pattern.endswith("*"))
        self._decided: dict[str, bool] = {}

    def copies(self, name: str) -> bool:
        """Return whether a message's header of this name goes along.

        >>> CopyList().copies("X-GitHub-Event"), CopyList(["*"]).copies("Cookie")
        (True, False)
        """
        decided = self._decided.get(name)
        if decided is None:
            if len(self._decided) > 1000:  # names are a producer's, who may invent new ones for ever
                self._decided.clear()
            decided = self._decided[name] = self._decide(name.lower())
        return decided

    def _decide(self, lower: str) -> bool:
        if TOKEN.match(lower) is None or lower in _NEVER or lower.startswith(_NEVER_PREFIXES):
            return False
        return lower in self._names or lower.startswith(self._prefixes)


def field_text(text: str) -> str:
    """Return `text` as a field value: everything but printable ASCII, and the percent sign, is percent-encoded.

    >>> field_text("orders.eu"), field_text("größe\\n")
    ('orders.eu', 'gr%C3%B6%C3%9Fe%0A')
    """
    if text.isascii() and text.isprintable() and "%" not in text:
        return text
    return quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~", errors="replace")


class InvalidDestination(InvalidField):
    """Raised when a destination's configuration cannot be used; `field` names what is wrong."""

    code = "invalid_destination"


def validate_url(url: Any, *, guard: NetworkGuard | None = None) -> str:
    """Return the URL; raise InvalidDestination for one that is not plain http(s), holds a login or hides its address.

    >>> validate_url("https://hooks.example.org:8443/in?kind=1")
    'https://hooks.example.org:8443/in?kind=1'
    """
    if url is None:
        raise InvalidDestination("url", "is missing")
    if not isinstance(url, str) or not url:
        raise InvalidDestination("url", "must be a text such as https://hooks.example.org/in")
    if len(url) > MAX_URL_CHARS:
        raise InvalidDestination("url", f"may have at most {MAX_URL_CHARS} characters")
    # Readers of URLs disagree about these; a name outside ASCII is written as xn--… .
    if not url.isascii() or not url.isprintable() or any(character in url for character in ' \\<>"{}|^`'):
        raise InvalidDestination("url", "may hold only printable ASCII without spaces, backslashes and brackets")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidDestination("url", f"cannot be read: {error}") from None
    if parts.scheme not in {"http", "https"}:
        raise InvalidDestination("url", f"must begin with http:// or https://, not {parts.scheme or 'nothing'}")
    if "@" in parts.netloc:
        raise InvalidDestination("url", "may not hold a user or password; put an Authorization header in the secrets")
    if "#" in url:
        raise InvalidDestination("url", "may not have a fragment (#…)")
    if port == 0:
        raise InvalidDestination("url", "the port must be 1 to 65535")
    _host(parts.hostname or "", guard)
    return url


def _host(host: str, guard: NetworkGuard | None) -> None:
    if not host:
        raise InvalidDestination("url", "has no host")
    if "%" in host:
        raise InvalidDestination("url", "the host may not hold a percent sign")
    if (why := odd_spelling(host)) is not None:
        raise InvalidDestination("url", why)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if any(not 1 <= len(label) <= 63 for label in host.removesuffix(".").split(".")) or len(host) > 253:
            raise InvalidDestination("url", f"{host!r} is not a host name") from None
        return
    if guard is not None and (why := guard.refusal(host)) is not None:
        raise InvalidDestination("url", why)


def may_keep_secrets(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether stored secrets may go with a changed configuration: to the same server, and no less guarded.

    Who may write a URL could else have them sent to a server of their own, and read them there.

    >>> may_keep_secrets({"url": "https://hooks.example.org/in"}, {"url": "https://hooks.example.org:443/out"})
    True
    >>> may_keep_secrets({"url": "https://hooks.example.org/in"}, {"url": "https://evil.example/in"})
    False
    """
    is_same_server = _server(before["url"]) == _server(after["url"])
    return is_same_server and (after.get("verify_tls", True) or not before.get("verify_tls", True))


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def validate_headers(headers: Any, *, field: str = "headers") -> dict[str, str]:
    """Return the fields a destination adds to each request; raise InvalidDestination naming the one that may not be.

    Among the `headers`, which readers may see, no credential may stand.
    """
    if not isinstance(headers, Mapping):
        raise InvalidDestination(field, "must be an object of header names and texts")
    if len(headers) > MAX_HEADERS:
        raise InvalidDestination(field, f"may hold at most {MAX_HEADERS} headers")
    seen: set[str] = set()
    for name, value in headers.items():
        if not isinstance(name, str) or not TOKEN.match(name):
            raise InvalidDestination(field, f"{name!r} is not a header name")
        if name.lower() in seen:
            raise InvalidDestination(field, f"{name} is there twice")
        seen.add(name.lower())
        if is_reserved(name):
            raise InvalidDestination(field, f"{name} is set by PoisonAdmin or by the protocol")
        if field == "headers" and names_caller(name):
            raise InvalidDestination(field, f"{name} is a credential, which readers could see; put it in the secrets")
        # The value may be a secret: it is not repeated.
        if not isinstance(value, str) or len(value) > 8192 or not value.isascii() or not is_sendable(name, value):
            raise InvalidDestination(field, f"the value of {name} must be printable ASCII, at most 8192 characters")
    return dict(headers)


def _method(method: Any) -> str:
    return str(one_of(METHODS)(method.upper() if isinstance(method, str) else method))


def _copy_headers(patterns: Any) -> list[str]:
    if not isinstance(patterns, list | tuple) or len(patterns) > MAX_HEADERS:
        raise InvalidValue(f"must be a list of at most {MAX_HEADERS} names or beginnings (x-*)")
    for pattern in patterns:
        if not isinstance(pattern, str) or not (pattern == "*" or TOKEN.match(pattern.removesuffix("*"))):
            raise InvalidValue(f"{pattern!r} is neither a header name nor a beginning like x-*")
    return list(patterns)


def _crash_on(value: Any) -> str | None:
    if value not in (None, CONNECTION_LOST):
        raise InvalidValue(f"must be null or {CONNECTION_LOST}")
    return CONNECTION_LOST if value else None


HTTP = settings.named(
    url=settings.text("URL", validate_url, most=MAX_URL_CHARS, is_guarded=True, hint="https://hooks.example.org/in"),
    method=settings.choice("Method", _method, default="POST", words={one: one for one in METHODS}),
    headers=settings.other(check=validate_headers, default={}),
    timeout_ms=duration("Answer within", 100, 300_000, default=30_000),
    concurrency=settings.number("Requests at once", whole(1, 512), default=64),
    verify_tls=settings.switch("Verify the server’s certificate", flag, default=True),
    copy_headers=settings.other(check=_copy_headers, default=list(COPIED_BY_DEFAULT)),
    crash_on=settings.other(check=_crash_on, default=None),
)
DEFAULTS: dict[str, Any] = {setting.name: setting.default for setting in HTTP[1:]}


def validate_http_config(config: Mapping[str, Any], *, guard: NetworkGuard | None = None) -> dict[str, Any]:
    """Return the configuration of an HTTP destination, only what it sets; raise InvalidDestination naming the field.

    `crash_on` is "connection_lost" where a connection that is lost after the request was sent counts as a crash of the
    consumer. With a `guard`, an address that is written in the URL is checked too; names are resolved and checked when
    a connection is made.
    """
    null = {"crash_on": lambda: None} if config.get("crash_on", "") is None else {}
    return checked_config(HTTP, config, InvalidDestination, guard=guard, instead=null)
