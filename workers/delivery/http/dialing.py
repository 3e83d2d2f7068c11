"""A connection to the first of several addresses that takes it (RFC 8305)."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

from workers.delivery.http.resolver import AddressInfo

# How long an address is tried alone before the next one is tried beside it.
HEAD_START_SECONDS = 0.25


async def connected_socket(
    addresses: Sequence[AddressInfo], make: Callable[[AddressInfo], socket.socket]
) -> socket.socket:
    """Return a socket that is connected to one of the addresses; raise the first one's error when there is none.

    `make` returns the socket for an address, or raises.
    """
    if len(addresses) == 1:
        return await _connect(addresses[0], make)
    waiting = list(reversed(addresses))
    trying: list[asyncio.Task[socket.socket]] = []
    winner: asyncio.Task[socket.socket] | None = None
    failed: list[BaseException] = []
    try:
        while winner is None and (waiting or len(failed) < len(trying)):
            if waiting:
                trying.append(asyncio.create_task(_connect(waiting.pop(), make)))
            running = [task for task in trying if not task.done()]
            done, _ = await asyncio.wait(
                running, timeout=HEAD_START_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if (error := task.exception()) is None:
                    winner = winner or task
                else:
                    failed.append(error)
        if winner is None:
            error = trying[0].exception()
            assert error is not None
            raise error
        return winner.result()
    finally:
        for task in trying:
            if task is not winner:
                task.cancel()
                task.add_done_callback(_close_unwanted)


async def _connect(to: AddressInfo, make: Callable[[AddressInfo], socket.socket]) -> socket.socket:
    made = make(to)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, to[4])
    except BaseException:
        made.close()
        raise
    return made


def _close_unwanted(task: asyncio.Task[socket.socket]) -> None:
    """Close the socket of a try that won too late."""
    with contextlib.suppress(asyncio.CancelledError, Exception):
        task.result().close()
