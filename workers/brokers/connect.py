"""Connections to brokers: a name is resolved once, every address checked, and what was checked is connected to."""

import os
import socket
import ssl

from poisonadmin.brokers.domain.broker_urls import BrokerUrl, InvalidBrokerUrl, parse_broker_url
from poisonadmin.core.domain.ssrf import NetworkGuard, guard_from
from workers.brokers.contract import BrokerError, Login

CONNECT_SECONDS = 5.0


def broker_url(kind: str, login: Login) -> BrokerUrl:
    """Return where the broker is. Errors: `BrokerError`."""
    try:
        return parse_broker_url(kind, login.url)
    except InvalidBrokerUrl as error:
        raise BrokerError(f"url: {error.detail}") from None


def permitted_addresses(host: str, port: int, *, guard: NetworkGuard | None = None) -> list[str]:
    """Return the IP addresses of `host`, in the order in which to try them.

    Errors: `BrokerError` when it has none, or when the guard forbids one of them. Without a guard the environment's.
    """
    guard = guard_from(os.environ) if guard is None else guard
    try:
        found = socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BrokerError(f"{host} cannot be resolved: {error}") from None
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    for address in addresses:
        if (why := guard.refusal(address)) is not None:
            raise BrokerError(f"{host}: {why}")
    return addresses


def open_socket(
    host: str,
    port: int,
    *,
    with_tls: bool,
    verify_tls: bool = True,
    guard: NetworkGuard | None = None,
    timeout_seconds: float = CONNECT_SECONDS,
) -> socket.socket:
    """Return a connected socket, with TLS where asked for. Its time-out stays on. Errors: `BrokerError`."""
    place = f"{host}:{port}"
    failed: OSError | None = None
    for address in permitted_addresses(host, port, guard=guard):
        try:
            plain = socket.create_connection((address, port), timeout_seconds)
        except OSError as error:
            failed = error
            continue
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A broker whose machine is gone says nothing: the kernel finds out.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not with_tls:
            return plain
        try:
            return _tls(verify_tls).wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            raise BrokerError(f"TLS with {place} failed: {error}") from None
    raise BrokerError(f"no connection to {place}: {failed}")


def _tls(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
