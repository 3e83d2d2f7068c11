"""The messages that a lost node held, for the reader of its journals."""

from typing import NamedTuple


class HeldFor(NamedTuple):
    """The destination that it was delivered to. `owner`: the pattern of the addresses that it may be moved to."""

    destination_id: int
    owner: str


# A journal may name a message that its node does not hold any more, or never did: it is moved nowhere.
NOWHERE = HeldFor(0, "")
