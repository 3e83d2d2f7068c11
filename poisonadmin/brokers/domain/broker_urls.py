"""The URLs of brokers, of sources and destinations, parsed."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from poisonadmin.brokers.domain.broker_kinds import BROKERS, BrokerKind
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.ssrf import NetworkGuard, odd_spelling

MAX_URL_CHARS = 2048


class InvalidBrokerUrl(PoisonAdminError):
    """Raised when a URL does not name a broker; those who check a configuration say which field it was."""

    code = "invalid_broker_url"


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """A parsed URL. `hosts`: name or address (IPv6 without brackets) and port.

    `virtual_host`: "/" where the URL names none.
    """

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    virtual_host: str = "/"

    @property
    def is_encrypted(self) -> bool:
        """True when the connection is made with TLS."""
        return any(self.scheme in kind.tls_schemes for kind in BROKERS.values())


def parse_broker_url(kind: str, url: object, *, guard: NetworkGuard | None = None) -> BrokerUrl:
    """Return where a broker of this kind is; raise `InvalidBrokerUrl` for what says it badly or holds a login.

    With a `guard`, addresses that are written in the URL are checked too; names are resolved and checked when a
    connection is made.

    >>> parse_broker_url("rabbitmq", "amqp://rabbit.example.org/shop%2Feu")
    BrokerUrl(scheme='amqp', hosts=(('rabbit.example.org', 5672),), virtual_host='shop/eu')
    >>> parse_broker_url("kafka", "kafka+ssl://a.example.org,[2001:db8::1]:9192").hosts
    (('a.example.org', 9093), ('2001:db8::1', 9192))
    """
    broker = BROKERS[kind]
    if not isinstance(url, str) or not url:
        raise InvalidBrokerUrl(f"must be a text such as {broker.example}")
    if len(url) > MAX_URL_CHARS:
        raise InvalidBrokerUrl(f"may have at most {MAX_URL_CHARS} characters")
    if not url.isascii() or not url.isprintable() or any(character in url for character in ' \\<>"{}|^`'):
        raise InvalidBrokerUrl("may hold only printable ASCII without spaces, backslashes and brackets")
    parts = _split(url)
    if parts.scheme not in broker.schemes:
        known = " or ".join(f"{scheme}://" for scheme in broker.schemes)
        raise InvalidBrokerUrl(f"must begin with {known}, such as {broker.example}")
    if "@" in parts.netloc:
        raise InvalidBrokerUrl("may not hold a user or password; put them in the secrets")
    if "?" in url or "#" in url:
        raise InvalidBrokerUrl("may hold neither ? nor #: settings have fields of their own")
    names = parts.netloc.split(",")
    if len(names) > broker.max_hosts:
        raise InvalidBrokerUrl(f"names more hosts than {broker.max_hosts}")
    hosts = tuple(_host_and_port(name, broker.schemes[parts.scheme]) for name in names)
    for host, _ in hosts:
        _check_host(host, guard)
    return BrokerUrl(parts.scheme, hosts, _virtual_host(broker, parts.path))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise InvalidBrokerUrl(f"cannot be read: {error}") from None


def _host_and_port(text: str, default_port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise InvalidBrokerUrl(f"cannot be read: {error}") from None
    if port == 0:
        raise InvalidBrokerUrl("the port must be 1 to 65535")
    return parts.hostname or "", default_port if port is None else port


def _check_host(host: str, guard: NetworkGuard | None) -> None:
    if not host:
        raise InvalidBrokerUrl("has no host")
    if "%" in host:
        raise InvalidBrokerUrl("the host may not hold a percent sign")
    if (why := odd_spelling(host)) is not None:
        raise InvalidBrokerUrl(why)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if any(not 1 <= len(label) <= 63 for label in host.removesuffix(".").split(".")) or len(host) > 253:
            raise InvalidBrokerUrl(f"{host!r} is not a host name") from None
        return
    if guard is not None and (why := guard.refusal(host)) is not None:
        raise InvalidBrokerUrl(why)


def _virtual_host(broker: BrokerKind, path: str) -> str:
    if path in ("", "/"):
        return "/"
    if not broker.has_virtual_hosts:
        raise InvalidBrokerUrl("may not have a path")
    if "/" in path[1:]:
        raise InvalidBrokerUrl("a slash in the name of a virtual host is written %2F")
    try:
        name = unquote(path[1:], errors="strict")
    except UnicodeDecodeError:
        raise InvalidBrokerUrl("the name of the virtual host is not UTF-8") from None
    if not name.isprintable() or len(name.encode()) > 255:
        raise InvalidBrokerUrl("the name of the virtual host must be printable, at most 255 bytes")
    return name
