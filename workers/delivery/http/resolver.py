"""Names are resolved once, every address is checked, and what was checked is what is connected to (RELIABILITY S6)."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from poisonadmin.core.domain.ssrf import NetworkGuard

Lookup = Callable[[str, int, int], Awaitable[list[tuple[Any, ...]]]]

# The event loop's own threads read what to deliver; a name server that hangs must not take them.
_THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="resolve")


class AddressRefused(OSError):
    """Raised when a destination's address is one that the guard forbids; an OSError, so that aiohttp passes it on."""


async def system_lookup(host: str, port: int, family: int) -> list[tuple[Any, ...]]:
    """Return what `getaddrinfo` says; raise OSError when the name cannot be resolved."""
    loop = asyncio.get_running_loop()

    def lookup() -> list[tuple[Any, ...]]:
        return list(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG))

    return await loop.run_in_executor(_THREADS, lookup)


class GuardedResolver(AbstractResolver):
    """Resolves names for aiohttp; refuses a name when any of its addresses is forbidden."""

    def __init__(self, guard: NetworkGuard, lookup: Lookup = system_lookup) -> None:
        self._guard = guard
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the checked addresses; raise AddressRefused for a forbidden one, OSError when there is none."""
        found = []
        for family_found, _, protocol, _, address in await self._lookup(host, port, family):
            ip = str(address[0])
            if (why := self._guard.forbidden(ip)) is not None:
                raise AddressRefused(f"{host} resolves to a forbidden address: {why}")
            found.append(
                ResolveResult(
                    hostname=host,
                    host=ip,
                    port=port,
                    family=family_found,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        if not found:
            raise OSError(f"{host} has no address")
        return found

    async def close(self) -> None:
        """Nothing is held."""


def guarded_socket(guard: NetworkGuard) -> Callable[[Any], socket.socket]:
    """Return a factory of sockets that sees the very address of each connection, also one written in the URL."""

    def make(address_info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = address_info
        if (why := guard.forbidden(str(address[0]))) is not None:
            raise AddressRefused(why)
        return socket.socket(family, kind, protocol)

    return make
