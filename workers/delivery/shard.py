"""Deliver one shard of a claim.

Fence, read, deliver, write outcomes. Runs in a Spark task; knows neither Spark nor Django.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Set
from dataclasses import asdict, dataclass, field

from poisonadmin.core.domain.ssrf import guard_from
from poisonadmin.delivery.domain.attempt import AttemptRecord
from poisonadmin.delivery.domain.destination_tally import DestinationTally
from poisonadmin.delivery.domain.window import TRANSPORT_CAUSES
from workers.delivery.broker.sender import BrokerDestination
from workers.delivery.claimed import Claimed, read_claimed, read_destinations, read_is_isolation, with_bodies
from workers.delivery.content_filter import read_rules, screened
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery, Summary, Tally
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.sandbox.journals import journal_directory, remove_journals
from workers.delivery.node import DeliveryNode, enter
from workers.delivery.run import NodeSide
from workers.delivery.sessions import Session, Sessions

# How long a task may begin deliveries. What is not begun by then goes back, while others may still be under way, and is
# claimed again, by a smaller window.
START_BUDGET_SECONDS = 2.0
# What was begun when the node is told to stop has this long to end; its outcome is unknown after that.
STOP_GRACE_SECONDS = 4.0


@dataclass
class UnderWay:
    """What a shard has under way, by destination: what has no outcome, and was begun or may still be."""

    start_deadline: Callable[[], float]
    claimed: "Counter[int | None]" = field(default_factory=Counter)
    begun: "Counter[int | None]" = field(default_factory=Counter)
    recorded: "Counter[int | None]" = field(default_factory=Counter)

    def count(self) -> dict[int, int]:
        """Return it as it is now, without what is 0."""
        known = self.claimed if time.monotonic() < self.start_deadline() else self.begun
        left = {to: known[to] - self.recorded[to] for to in list(known) if to is not None}
        return {to: n for to, n in left.items() if n > 0}


def deliver_shard(sessions: Sessions, *, claim_id: int, shard: int, waits: Callable[[], None] = lambda: None) -> bool:
    """Deliver the shard unless another task did or does; return whether it was this one.

    `waits` is called once when nothing more may begin, and the reader is not used any more; not where a handler
    delivers, which begins for longer. Every delivery that began has its outcome written when this returns, and the
    node's row says what the shard came to.
    Errors: `psycopg.OperationalError` when the database stays away.
    """
    node = enter(sessions, claim_id=claim_id, shard=shard, budget_seconds=START_BUDGET_SECONDS)
    if node is None:
        return False
    recorded: set[int] = set()
    under_way = UnderWay(node.start_deadline)
    causes: dict[int, Counter[str]] = {}

    def record(outcome: AttemptRecord) -> None:
        recorded.add(outcome.message_id)
        if outcome.error_class in TRANSPORT_CAUSES and outcome.destination_id is not None:
            cause = TRANSPORT_CAUSES[outcome.error_class]
            causes.setdefault(outcome.destination_id, Counter())[cause] += 1
        under_way.recorded[outcome.destination_id] += 1
        node.record(outcome)

    def began(delivery: Delivery) -> None:
        begun.add(delivery.message_id)
        under_way.begun[delivery.destination_id] += 1

    begun: set[int] = set()
    summary: Summary | None = None
    claimed: list[Claimed] = []
    try:
        reader = sessions.reader()
        claimed = read_claimed(reader, claim_id, shard)
        under_way.claimed.update(one.destination_id for one in claimed)
        node.tell(under_way.count)
        summary = asyncio.run(_deliver(reader, node, claimed, (claim_id, shard), record, began, recorded, waits))
    finally:
        tallies = [asdict(tally) for tally in _tallies(claimed, summary, causes)]
        node.end(begun=len(begun), unanswered=sorted(begun - recorded), tallies=tallies)
        remove_journals(node.id)
    return True


async def _deliver(
    reader: Session,
    node: DeliveryNode,
    claimed: list[Claimed],
    key: tuple[int, int],
    record: Callable[[AttemptRecord], None],
    began: Callable[[Delivery], None],
    recorded: Set[int],
    waits: Callable[[], None],
) -> Summary | None:
    """Run the delivery to its end; None when it had to be broken off."""
    destinations = read_destinations(reader, key[0], {one.destination_id for one in claimed})
    database_now = _database_clock(reader)
    is_isolation = read_is_isolation(reader, key[0])
    rules = read_rules(reader, {one.address for one in claimed})
    brokers = {to.id for to in destinations.values() if isinstance(to, BrokerDestination)}
    handlers = {to.id for to in destinations.values() if isinstance(to, HandlerDestination)}

    def over(taken: Set[int]) -> None:
        left = [one for one in claimed if one.id not in taken and one.id not in recorded]
        node.release([one.id for one in left if one.destination_id not in handlers], waits=not handlers)
        if not handlers:
            waits()

    if handlers:
        # From here on a node that is lost is looked up in its pages, before anything of it goes back.
        reader.execute("UPDATE node SET pages = %s WHERE id = %s", [str(journal_directory()), node.id])

    delivering = asyncio.ensure_future(
        deliver_all(
            screened(with_bodies(reader, claimed, brokers), rules, reader, database_now),
            destinations,
            start_deadline=node.start_deadline,
            stop=node.stopping,
            record=record,
            claim_id=key[0],
            shard=key[1],
            guard=guard_from(os.environ),
            now=database_now,
            began=began,
            over=over,
            node=NodeSide(
                node.id, journal_directory(), is_isolation, node.lease_deadline, _marker(reader, node.id), node.written
            ),
        )
    )
    grace_until = float("inf")
    while not delivering.done():
        await asyncio.wait([delivering], timeout=0.2)
        if node.stopping.is_set():
            grace_until = min(grace_until, time.monotonic() + STOP_GRACE_SECONDS)
            if time.monotonic() > grace_until:
                delivering.cancel()
                await asyncio.wait([delivering], timeout=1)
                return None
    return delivering.result()


def _marker(reader: Session, node_id: int) -> Callable[[Delivery], Awaitable[None]]:
    """Return what writes down, before a candidate is begun, that it is."""

    async def mark(delivery: Delivery) -> None:
        await asyncio.to_thread(
            reader.execute, "UPDATE node SET start_mark = %s WHERE id = %s", [delivery.message_id, node_id]
        )

    return mark


def _database_clock(reader: Session) -> Callable[[], float]:
    row = reader.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    offset = float(str(row[0])) - time.monotonic()
    return lambda: time.monotonic() + offset


def _tallies(
    claimed: list[Claimed], summary: Summary | None, causes: dict[int, "Counter[str]"]
) -> list[DestinationTally]:
    if summary is None:
        return []
    found = []
    for destination_id, size in Counter(one.destination_id for one in claimed).items():
        tally = summary.by_destination.get(destination_id, Tally())
        common = causes.get(destination_id, Counter()).most_common(1)
        found.append(
            DestinationTally(
                destination_id,
                claimed=size - tally.ruled,
                begun=tally.begun,
                delivered=tally.delivered,
                failed=tally.failed,
                transport_failures=tally.transport_failures,
                cause=common[0][0] if common else None,
            )
        )
    return found
