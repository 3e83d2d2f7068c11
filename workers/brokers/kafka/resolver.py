"""Resolves names for Kafka's client: every address that it may connect to passes the network guard.

Threads of the client connect to wherever a broker says that it or another one is. They ask a callback of librdkafka's
(`resolve_cb`) for the addresses of each name and connect to what it returns, so that is the one place to check. The
callback for connections is none: it is called with a lock held for which a thread that holds the GIL may wait.

The client for Python has no way to set a callback. So it is made without servers, which keeps it from connecting, and
found behind its Python object; it is given its servers once librdkafka confirms that the callback is in force.
"""

import ctypes
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

from confluent_kafka import cimpl

from poisonadmin.core.domain.ssrf import guard_from
from workers.brokers.contract import BrokerError

_IPV4_BYTES, _IPV6_BYTES = 16, 28  # of a sockaddr_in and a sockaddr_in6, on Linux and macOS


class _AddressInfo(ctypes.Structure):
    """`struct addrinfo`, whose order the C library decides."""


_AddressInfos = ctypes.POINTER(_AddressInfo)
_POINTERS = ("ai_canonname", "ai_addr") if sys.platform == "darwin" else ("ai_addr", "ai_canonname")
_AddressInfo._fields_ = [
    *((name, ctypes.c_int) for name in ("ai_flags", "ai_family", "ai_socktype", "ai_protocol")),
    ("ai_addrlen", ctypes.c_uint32),
    *((name, ctypes.c_void_p) for name in _POINTERS),
    ("ai_next", _AddressInfos),
]
_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(_AddressInfos), ctypes.c_void_p
)

# Both let other threads run while they are called.
_LIBC = ctypes.CDLL(None)
_LIBC.getaddrinfo.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(_AddressInfos))
_LIBC.freeaddrinfo.argtypes = (_AddressInfos,)
_LIBC.freeaddrinfo.restype = None
_RDKAFKA = ctypes.CDLL(cimpl.__file__)
_RDKAFKA.rd_kafka_opaque.argtypes = (ctypes.c_void_p,)
_RDKAFKA.rd_kafka_opaque.restype = ctypes.c_void_p
_RDKAFKA.rd_kafka_conf.argtypes = (ctypes.c_void_p,)
_RDKAFKA.rd_kafka_conf.restype = ctypes.c_void_p
_RDKAFKA.rd_kafka_conf_set_resolve_cb.argtypes = (ctypes.c_void_p, _Callback)
_RDKAFKA.rd_kafka_conf_set_resolve_cb.restype = None
_SIZE = ctypes.POINTER(ctypes.c_size_t)
_RDKAFKA.rd_kafka_conf_get.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, _SIZE)
_RDKAFKA.rd_kafka_brokers_add.argtypes = (ctypes.c_void_p, ctypes.c_char_p)

# The last refusal of each client, by its address in memory; what has the address next begins without.
_refusals: dict[int, str] = {}


def give_servers(client: Any, servers: str) -> None:
    """Let a client that was made without servers connect to these, and to what they name, where the guard permits it.

    `servers`: as for `bootstrap.servers`. Errors: `BrokerError` when the guard cannot be put in force; the client then
    knows no server.
    """
    handle = _handle(client)
    if handle is None or not _is_guarded(handle):
        raise BrokerError("this version of Kafka's client cannot be kept from forbidden addresses")
    _refusals.pop(id(client), None)
    _RDKAFKA.rd_kafka_brokers_add(handle, servers.encode())


def refusal(client: Any) -> str | None:
    """Return which name the client was last kept from, and why; None when it was not.

    The client itself says only that the name cannot be resolved.
    """
    return _refusals.get(id(client))


def _handle(client: Any) -> int | None:
    """Return librdkafka's client, the first field of the Python object, which librdkafka has as its opaque value."""
    found = ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value
    return found if found is not None and _RDKAFKA.rd_kafka_opaque(found) == id(client) else None


def _is_guarded(handle: int) -> bool:
    configuration = _RDKAFKA.rd_kafka_conf(handle)
    _RDKAFKA.rd_kafka_conf_set_resolve_cb(configuration, _CALLBACK)
    in_force = ctypes.create_string_buffer(32)
    _RDKAFKA.rd_kafka_conf_get(configuration, b"resolve_cb", in_force, ctypes.c_size_t(len(in_force)))
    return in_force.value == hex(ctypes.cast(_CALLBACK, ctypes.c_void_p).value or 0).encode()


def _resolve(name: bytes | None, service: bytes, hints: int, result: Any, client: int) -> int:
    """Do what getaddrinfo does, but for names with a forbidden address; without a name, free the addresses."""
    if name is None:
        _LIBC.freeaddrinfo(result[0])
        return 0
    result[0] = _AddressInfos()  # an exception ends with 0 in librdkafka: there are no addresses then
    found = _AddressInfos()
    if (failure := _LIBC.getaddrinfo(name, service, hints, ctypes.byref(found))) != 0:
        return int(failure)
    guard = guard_from(os.environ)
    for address in _addresses(found):
        if (why := guard.refusal(address)) is not None:
            _LIBC.freeaddrinfo(found)
            _refusals[client] = f"{name.decode('utf-8', 'replace')}: {why}"
            return socket.EAI_FAIL
    result[0] = found
    return 0


def _addresses(infos: Any) -> Iterator[str]:
    while infos:
        info = infos.contents
        raw = ctypes.string_at(info.ai_addr, info.ai_addrlen)
        # What is neither is no IP address, which the guard refuses.
        places = {_IPV4_BYTES: slice(4, 8), _IPV6_BYTES: slice(8, 24)}
        place = places.get(len(raw))
        yield str(ipaddress.ip_address(raw[place])) if place else raw.hex()
        infos = info.ai_next


# Clients may call it until the process ends, so it is never given up.
_CALLBACK = _Callback(_resolve)
