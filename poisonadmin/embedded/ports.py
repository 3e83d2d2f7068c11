"""TCP ports on the loopback interface: choosing a free one, and saying which one is taken."""

import random
import socket

from poisonadmin.embedded.processes import EmbeddedError

# Below the range from which Linux takes the ports of outgoing connections: a service that is
# restarted must find its port free, and an outgoing connection could have taken it meanwhile.
LOWEST_PORT = 15_000
HIGHEST_PORT = 32_000


class PortTaken(EmbeddedError):
    """Raised when a port that was asked for by number already has a listener."""


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a free port, outside the range that outgoing connections take theirs from."""
    for _ in range(1000):
        port = random.randint(LOWEST_PORT, HIGHEST_PORT)
        if is_free(port):
            return port
    raise EmbeddedError(f"No free TCP port between {LOWEST_PORT} and {HIGHEST_PORT} on the loopback interface.")


def require_free(port: int, variable: str) -> None:
    """Return when `port` is free; raise `PortTaken`, naming it and the environment variable that chooses another."""
    if not is_free(port):
        raise PortTaken(
            f"Port {port} is taken by another process. Stop that process, or choose another port: "
            f"{variable}={port + 1} make up"
        )
