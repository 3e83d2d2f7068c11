"""A claimed message on its way, and the counts of a run that delivers such messages."""

from dataclasses import dataclass, field

from poisonadmin.rules.domain.content_rules import FilterDecision


@dataclass(slots=True, eq=False)
class Delivery:
    """One claimed message, from its claim to its outcome. Times are Unix seconds by the database's clock.

    `start_at`: its slot, never begun earlier (None: at once); `rate_per_second`: the rate that the slot is of.
    `start_before`: where the slots of its claim end; not begun from then on, nor from `expires_at` on.
    `chain`: the ordered conversation it belongs to, delivered one after the other, up to the first that is not.
    `blames_all`: a crash accuses all that are in delivery with it (SAP-8), not only the one in turn.
    `delivery_count`: failures so far and this delivery; `is_redelivered`: it was begun before. `original_address`:
    where it was before it was moved, `original_queue` its queue there, where it is the child of a dead letter.
    `decision`: a content rule's; then it is not delivered. `transport`: the report of the broker that it came from, as
    JSON (workers/brokers/contract.py), for a destination that is a broker.
    """

    message_id: int
    attempt_number: int
    destination_id: int
    address: str
    producer_message_id: str
    content_type: str
    conversation_id: str | None = None
    payload_bytes: int = 0
    start_at: float | None = None
    rate_per_second: float | None = None
    operation_id: int | None = None
    expires_at: float | None = None
    bookmark: str | None = None
    blames_all: bool = False
    chain: int | None = None
    delivery_count: int = 1
    is_redelivered: bool = False
    original_address: str | None = None
    is_child: bool = False
    # These are read a slice at a time, when it is soon to begin.
    headers: dict[str, str] = field(default_factory=dict)
    payload: bytes = b""
    transport: bytes | None = None
    original_queue: str | None = None
    start_before: float | None = None
    decision: FilterDecision | None = None

    @property
    def origin(self) -> dict[str, str]:
        """The headers that say where a moved message comes from (R12, ART-11)."""
        if self.original_address is None:
            return {}
        found = {"PoisonAdmin-Original-Address": self.original_address}
        if self.original_queue is not None:
            found |= {"_AMQ_ORIG_ADDRESS": self.original_address, "_AMQ_ORIG_QUEUE": self.original_queue}
        return found


@dataclass(slots=True)
class Tally:
    """Counts of one destination in one run; `transport_failures` are those without an HTTP status.

    `ruled`: messages that content rules kept from being delivered.
    """

    begun: int = 0
    delivered: int = 0
    failed: int = 0
    transport_failures: int = 0
    not_begun: int = 0
    ruled: int = 0


@dataclass(frozen=True)
class Summary:
    """The result of a run. `not_begun` counts messages that were read and left alone: the caller releases them."""

    begun: int
    delivered: int
    failed: int
    not_begun: int
    by_destination: dict[int, Tally] = field(default_factory=dict)


def summary_of(tallies: dict[int, Tally]) -> Summary:
    """Return the run's summary, the sum over its destinations."""
    each = tallies.values()
    return Summary(
        begun=sum(tally.begun for tally in each),
        delivered=sum(tally.delivered for tally in each),
        failed=sum(tally.failed for tally in each),
        not_begun=sum(tally.not_begun for tally in each),
        by_destination=tallies,
    )
