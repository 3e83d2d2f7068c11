"""Names are resolved once, every address is checked, and what was checked is what is connected to."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from typing import Any

from poisonadmin.core.domain.ssrf import NetworkGuard

Lookup = Callable[[str, int, int], Awaitable[list[tuple[Any, ...]]]]
# Family, kind, protocol, canonical name, address: as `getaddrinfo` gives them.
AddressInfo = tuple[Any, ...]

REMEMBERED_SECONDS = 10.0

# The event loop's own threads read what to deliver; a name server that hangs must not take them.
_THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="resolve")


class AddressRefused(OSError):
    """Raised when a destination's address is one that the guard forbids."""


class NameNotResolved(OSError):
    """Raised when a name has no address, or the name server does not say."""


async def system_lookup(host: str, port: int, family: int) -> list[tuple[Any, ...]]:
    """Return what `getaddrinfo` says; raise OSError when the name cannot be resolved."""
    loop = asyncio.get_running_loop()

    def lookup() -> list[tuple[Any, ...]]:
        return list(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG))

    return await loop.run_in_executor(_THREADS, lookup)


class GuardedResolver:
    """The checked addresses of one server; those who ask at the same time share one look-up."""

    def __init__(self, host: str, port: int, guard: NetworkGuard, lookup: Lookup = system_lookup) -> None:
        self._host = host
        self._port = port
        self._guard = guard
        self._lookup = lookup
        self._looking: asyncio.Task[list[AddressInfo]] | None = None
        self._until = 0.0

    async def addresses(self) -> list[AddressInfo]:
        """Return the addresses in the order to try them, IPv6 and IPv4 by turns.

        Errors: `AddressRefused` when any of them is forbidden, `NameNotResolved`.
        """
        now = asyncio.get_running_loop().time()
        is_old = self._looking is not None and self._looking.done() and now >= self._until
        if self._looking is None or is_old:
            self._until = now + REMEMBERED_SECONDS
            self._looking = asyncio.create_task(self._resolve())
        looking = self._looking
        try:
            # Whoever gives up does not take the answer from the others.
            return await asyncio.shield(looking)
        except Exception:
            if self._looking is looking:
                self._looking = None
            raise

    async def close(self) -> None:
        """End a look-up that nobody waits for any more."""
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._looking

    async def _resolve(self) -> list[AddressInfo]:
        if (family := _family(self._host)) is not None:
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (self._host, self._port))]
        try:
            found = await self._lookup(self._host, self._port, socket.AF_UNSPEC)
        except OSError as error:
            raise NameNotResolved(error.errno, error.strerror or str(error)) from error
        for *_, address in found:
            if (why := self._guard.forbidden(str(address[0]))) is not None:
                raise AddressRefused(f"{self._host} resolves to a forbidden address: {why}")
        if not found:
            raise NameNotResolved(f"{self._host} has no address")
        return _by_turns(
            [
                (family, kind, protocol, "", (str(address[0]), self._port, *address[2:]))
                for family, kind, protocol, _, address in found
            ]
        )


def guarded_socket(guard: NetworkGuard) -> Callable[[Any], socket.socket]:
    """Return a factory of sockets that sees the very address of each connection, also one written in the URL."""

    def make(address_info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = address_info
        if (why := guard.forbidden(str(address[0]))) is not None:
            raise AddressRefused(why)
        return socket.socket(family, kind, protocol)

    return make


def _family(host: str) -> socket.AddressFamily | None:
    """Return the family of an address, None for a name."""
    try:
        return socket.AF_INET if ipaddress.ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return None


def _by_turns(found: Sequence[AddressInfo]) -> list[AddressInfo]:
    """Return the addresses with the families by turns, beginning with the first one's (RFC 8305, section 4)."""
    first = [each for each in found if each[0] == found[0][0]]
    second = [each for each in found if each[0] != found[0][0]]
    return [each for each in chain(*zip_longest(first, second)) if each is not None]
