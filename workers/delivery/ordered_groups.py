"""Ordered conversations in one shard: one delivery of each at a time, up to the first that does not arrive."""

from collections import deque

from workers.delivery.deliveries import Delivery

# How much may be held behind predecessors that are under way.
HELD_BYTES = 32 * 1024 * 1024


class OrderedGroups:
    """What is held behind a delivery of the same conversation. `len` counts what is held."""

    def __init__(self) -> None:
        self._held: dict[int, deque[Delivery]] = {}
        self._closed: set[int] = set()
        self._bytes = 0

    def __len__(self) -> int:
        return sum(len(held) for held in self._held.values())

    @property
    def has_room(self) -> bool:
        """Whether more may be held."""
        return self._bytes < HELD_BYTES

    def is_closed(self, chain: int | None) -> bool:
        """Return whether nothing more is taken of the chain, since one of it was left out."""
        return chain in self._closed

    def admits(self, delivery: Delivery) -> bool:
        """Return whether a delivery may be begun now; else it is held behind the one that is under way."""
        assert delivery.chain is not None
        held = self._held.get(delivery.chain)
        if held is None:
            self._held[delivery.chain] = deque()
            return True
        held.append(delivery)
        self._bytes += len(delivery.payload)
        return False

    def close(self, chain: int) -> None:
        """Take nothing more of the chain; what is held goes on."""
        self._closed.add(chain)

    def following(self, chain: int) -> Delivery | None:
        """Return the delivery that may be begun after one that has arrived."""
        held = self._held.get(chain)
        if held is None:
            return None
        if not held:
            del self._held[chain]
            return None
        following = held.popleft()
        self._bytes -= len(following.payload)
        return following

    def break_off(self, chain: int) -> int:
        """Begin nothing more of the chain; return how many were held."""
        held = self._held.pop(chain, deque())
        self._closed.add(chain)
        self._bytes -= sum(len(delivery.payload) for delivery in held)
        return len(held)
