"""Counts of deliveries to a destination, of one shard of a claim or of all its shards."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DestinationTally:
    """The counts for one destination. `claimed` leaves out what content rules kept from it.

    `cause`: the most frequent transport failure, as a person would say it.
    """

    destination_id: int
    claimed: int
    begun: int
    delivered: int
    failed: int
    transport_failures: int
    cause: str | None
