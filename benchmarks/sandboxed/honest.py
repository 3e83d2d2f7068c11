"""A handler that does what handlers do: it reads an order of 1 kB, checks it, and computes for about a millisecond."""

import hashlib
from typing import Any

# About a millisecond of one core on the machine of docs/operate/performance.md; the benchmark says how long it took.
ROUNDS = 5_000


class OrderRejected(Exception):
    """Raised when an order does not add up."""


def handle(message: Any) -> None:
    """Check the order and seal it; do what its `deed` says where it has one."""
    order = message.json()
    if order["deed"]:
        _do(order["deed"])
    total = sum(line["quantity"] * line["price"] for line in order["lines"])
    if total != order["total"]:
        raise OrderRejected(f"{total} is not {order['total']}")
    hashlib.pbkdf2_hmac("sha256", message.payload, b"seal", ROUNDS)


def _do(deed: str) -> None:
    if deed:
        import deadly  # on the handler path of a sandbox, and nowhere else

        name, *words = deed.split()
        deadly.DEEDS[name](*words)
