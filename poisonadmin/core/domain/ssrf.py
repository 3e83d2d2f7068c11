"""Which network addresses a destination may not stand for.

Pure: nothing here resolves a name or opens a socket. `workers.delivery.http.resolver` asks for every address that it is
about to connect to; `poisonadmin.destinations.domain.http_config` asks for those that are written in a URL.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from poisonadmin.core.domain.errors import PoisonAdminError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class InvalidNetwork(PoisonAdminError):
    """Raised when an allow-list holds something that is not a network in CIDR form."""

    code = "invalid_network"


def _table(*rows: tuple[str, str]) -> tuple[tuple[Network, str], ...]:
    return tuple((ipaddress.ip_network(text), why) for text, why in rows)


# Sources: the IANA special-purpose address registries; the clouds' own pages for their metadata services.
_NEVER = _table(
    ("0.0.0.0/8", "unspecified"),
    ("169.254.0.0/16", "link-local, where clouds serve their metadata"),
    ("168.63.129.16/32", "a cloud's metadata service"),
    ("100.100.100.200/32", "a cloud's metadata service"),
    ("192.0.0.192/32", "a cloud's metadata service"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved or broadcast"),
    ("::/128", "unspecified"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("fd00:ec2::/32", "a cloud's metadata service"),
    ("fd20:ce::254/128", "a cloud's metadata service"),
    ("fd00:42::42/128", "a cloud's metadata service"),
    ("ff00::/8", "multicast"),
)
_LOOPBACK = _table(("127.0.0.0/8", "loopback"), ("::1/128", "loopback"))
_UNLESS_ALLOWED = _table(
    ("10.0.0.0/8", "private"),
    ("172.16.0.0/12", "private"),
    ("192.168.0.0/16", "private"),
    ("100.64.0.0/10", "shared between carriers and customers (CGNAT)"),
    ("192.0.0.0/24", "set aside for protocols"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("::/8", "IPv4-compatible or reserved"),
    ("64:ff9b:1::/48", "a local NAT64 prefix"),
    ("100::/64", "discard-only"),
    ("2001::/23", "set aside for protocols"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "private"),
)


def _bits(shift: int) -> Callable[[int], int]:
    return lambda value: (value >> shift) & 0xFFFFFFFF


# An IPv6 address that carries an IPv4 one is only as good as that one.
_CARRIERS: tuple[tuple[ipaddress.IPv6Network, Callable[[int], int]], ...] = (
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), _bits(0)),
    (ipaddress.IPv6Network("::/96"), _bits(0)),
    (ipaddress.IPv6Network("64:ff9b::/96"), _bits(0)),
    (ipaddress.IPv6Network("64:ff9b:1::/48"), _bits(0)),
    (ipaddress.IPv6Network("2002::/16"), _bits(80)),
    (ipaddress.IPv6Network("2001::/32"), lambda value: ~value & 0xFFFFFFFF),
)
_ISATAP_MARKS = (0x00005EFE, 0x02005EFE)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_EVERYTHING = (ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv6Network("::/0"))


def forbidden(ip: str, *, allow: Sequence[Network] = (), allow_loopback: bool = False) -> str | None:
    """Return why a destination may not be at this address, or None where it may.

    `allow` opens private and other special ranges; link-local, metadata, multicast and unspecified addresses stay
    shut whatever it says. Loopback needs `allow_loopback` or a network in `allow` that covers it.

    >>> forbidden("169.254.169.254")
    '169.254.169.254 is link-local, where clouds serve their metadata'
    >>> forbidden("::ffff:10.1.2.3")
    '10.1.2.3 is private'
    >>> forbidden("10.1.2.3", allow=[ipaddress.ip_network("10.1.0.0/16")]) is None
    True
    """
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return f"{ip!r} is not an IP address"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    why = _why(address, allow, allow_loopback)
    if why is not None:
        return f"{address} is {why}"
    for inner in _carried(address):
        if (why := _why(inner, allow, allow_loopback)) is not None:
            return f"{address} stands for {inner}, which is {why}"
    return None


def _why(address: _Address, allow: Sequence[Network], allow_loopback: bool) -> str | None:
    if (why := _first(_NEVER, address)) is not None:
        return why
    if any(address in network for network in allow):
        return None
    if (why := _first(_LOOPBACK, address)) is not None:
        return None if allow_loopback else why
    if address in _NAT64:
        return None
    if (why := _first(_UNLESS_ALLOWED, address)) is not None:
        return why
    return None if address.is_global else "not a public address"


def _first(table: Sequence[tuple[Network, str]], address: _Address) -> str | None:
    return next((why for network, why in table if address in network), None)


def _carried(address: _Address) -> list[ipaddress.IPv4Address]:
    if not isinstance(address, ipaddress.IPv6Address) or address.is_loopback:
        return []
    value = int(address)
    found = [ipaddress.IPv4Address(extract(value)) for network, extract in _CARRIERS if address in network]
    if (value >> 32) & 0xFFFFFFFF in _ISATAP_MARKS:
        found.append(ipaddress.IPv4Address(value & 0xFFFFFFFF))
    return found


_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z", re.IGNORECASE)


def odd_spelling(host: str) -> str | None:
    """Return why `host` is a disguised IPv4 address, or None: names and plain addresses pass.

    C libraries read 0x7f.1, 0177.0.0.1, 127.1 and 2130706433 as 127.0.0.1, other readers do not; a name never ends in
    a number, so whatever does must be four plain decimal numbers.

    >>> odd_spelling("2130706433")
    "'2130706433' is an unusual spelling of an IPv4 address"
    >>> odd_spelling("10.0.0.1") is None and odd_spelling("example.org") is None
    True
    """
    if ":" in host or not _NUMBER.match(host.rstrip(".").rpartition(".")[2]):
        return None
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return f"{host!r} is an unusual spelling of an IPv4 address"
    return None


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a list such as "10.0.0.0/8, fd12::/16"; raise InvalidNetwork for anything else.

    >>> parse_networks("10.0.0.0/8, 192.168.1.7")
    (IPv4Network('10.0.0.0/8'), IPv4Network('192.168.1.7/32'))
    """
    networks = []
    for word in text.replace(",", " ").split():
        try:
            networks.append(ipaddress.ip_network(word))
        except ValueError as error:
            raise InvalidNetwork(f"{word!r} is not a network such as 10.0.0.0/8: {error}") from None
    return tuple(networks)


@dataclass(frozen=True, slots=True)
class NetworkGuard:
    """The networks that an installation lets its destinations reach."""

    allow: tuple[Network, ...] = ()
    allow_loopback: bool = False

    def forbidden(self, ip: str) -> str | None:
        """Return why `ip` may not be reached, or None."""
        return forbidden(ip, allow=self.allow, allow_loopback=self.allow_loopback)

    def refusal(self, ip: str) -> str | None:
        """Return why `ip` may not be reached, and whether a setting could change that; None where it may.

        >>> NetworkGuard().refusal("10.0.0.1")
        '10.0.0.1 is private, and POISONADMIN_ALLOWED_NETWORKS does not allow it'
        >>> NetworkGuard().refusal("169.254.169.254")
        '169.254.169.254 is link-local, where clouds serve their metadata; no setting allows it'
        """
        why = self.forbidden(ip)
        if why is None:
            return None
        if forbidden(ip, allow=_EVERYTHING, allow_loopback=True) is not None:
            return f"{why}; no setting allows it"
        return f"{why}, and POISONADMIN_ALLOWED_NETWORKS does not allow it"


def guard_from(environment: Mapping[str, str]) -> NetworkGuard:
    """Return the guard that `POISONADMIN_ALLOWED_NETWORKS` and `POISONADMIN_ALLOW_LOOPBACK` (1, true, yes) ask for."""
    loopback = environment.get("POISONADMIN_ALLOW_LOOPBACK", "").strip().lower() in {"1", "true", "yes", "on"}
    return NetworkGuard(parse_networks(environment.get("POISONADMIN_ALLOWED_NETWORKS", "")), loopback)
