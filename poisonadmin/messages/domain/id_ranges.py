"""Messages in pieces, by their ids."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IdRange:
    """The messages with ids above `after`, up to `until`."""

    after: int
    until: int
