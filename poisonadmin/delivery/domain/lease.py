"""The lease of a delivering process, the silence after which it is taken for lost, and the messages that it held."""

from typing import NamedTuple

LEASE_SECONDS = 60
# Nothing is begun this close to the end of the lease: the clock of the database and a node's may run apart.
LEASE_MARGIN_SECONDS = 5

HEARTBEAT_SECONDS = 0.5
SILENT_SECONDS = 1.5
# After a restart of the database its sessions have to come back first. People are shown a node as lost no sooner.
SILENT_SECONDS_AFTER_RESTART = 10


class HeldFor(NamedTuple):
    """The destination that it was delivered to. `owner`: the pattern of the addresses that it may be moved to."""

    destination_id: int
    owner: str


# A journal may name a message that its node does not hold any more, or never did: it is moved nowhere.
NOWHERE = HeldFor(0, "")
