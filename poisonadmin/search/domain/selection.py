"""The orders of a limited selection, and the hash of a selection."""

import hashlib
from collections.abc import Iterable
from enum import StrEnum

MAX_MEMBERS = 10_000_000
MEMBERS_A_PIECE = 10_000


class SelectionOrder(StrEnum):
    """Which messages a limited selection takes. The last two go by the time of the latest failure."""

    OLDEST = "oldest"
    NEWEST = "newest"
    RANDOM = "random"
    OLDEST_FAILURE = "oldest_failure"
    NEWEST_FAILURE = "newest_failure"


def ids_hash(ids: Iterable[int]) -> str:
    """Return the SHA-256 of a selection, in hexadecimal: of its ids, rising, in decimal, each with a newline behind it.

    >>> ids_hash([20, 3])
    '76407761987066c162426ab96accb2a05830e00c7d7f656db366fe6a045fe424'
    """
    return hashlib.sha256("".join(f"{one}\n" for one in sorted(ids)).encode()).hexdigest()
