"""Deliver one shard of a claim.

Fence, read, deliver, write outcomes. Runs in a Spark task; knows neither Spark nor Django.
"""

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

from poisonadmin.core.domain.ssrf import guard_from
from poisonadmin.delivery.domain.window import START_BUDGET_SECONDS, TRANSPORT_CAUSES, DestinationTally
from poisonadmin.messages.domain.attempt import AttemptRecord
from workers.delivery.broker import BrokerDestination
from workers.delivery.claimed import read_claimed, read_destinations, with_bodies
from workers.delivery.content_filter import read_rules, screened
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery, Tally, TaskDestination
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.journals import journal_directory, remove_journals
from workers.delivery.node import NodeSession, enter
from workers.delivery.sessions import Session, Sessions

# What was begun when the node is told to stop has this long to end; its outcome is unknown after that.
STOP_GRACE_SECONDS = 4.0

# Whether its messages are candidates, to be delivered one after the other; and the database's time.
_CLAIM = "SELECT is_isolation, extract(epoch FROM clock_timestamp())::float8 FROM claim WHERE id = %s"


class ShardNode:
    """The node of one shard, as its run sees it: counts what the shard has under way, hands outcomes to the session.

    `waits` is called as `deliver_shard` says.
    """

    def __init__(self, session: NodeSession, claim_id: int, shard: int, waits: Callable[[], None]) -> None:
        self.id = session.id
        self.claim_id = claim_id
        self.shard = shard
        self.is_isolation = False
        self.journals = journal_directory()
        self.start_deadline = session.start_deadline
        self.lease_deadline = session.lease_deadline
        self.is_stopping = session.stopping.is_set
        self.written = session.written
        self.now: Callable[[], float] = time.time
        self._session = session
        self._waits = waits
        self._handlers: Set[int] = frozenset()
        self._sandboxes: dict[int, Callable[[], int]] = {}
        # Message id -> destination id, in the order in which they are to begin.
        self._claimed: dict[int, int] = {}
        self._begun: set[int] = set()
        self._recorded: set[int] = set()
        self._released: set[int] = set()
        self._claimed_there: Counter[int] = Counter()
        self._recorded_there: Counter[int | None] = Counter()
        self._released_there: Counter[int] = Counter()
        self._is_waiting = False
        self._causes: dict[int, Counter[str]] = {}

    def read(self, reader: Session) -> tuple[deque[Delivery], dict[int, TaskDestination]]:
        """Return the shard's messages, without their bodies, and their destinations."""
        self._reader = reader
        claimed = read_claimed(reader, self.claim_id, self.shard)
        self._claimed = {one.message_id: one.destination_id for one in claimed}
        self._claimed_there.update(self._claimed.values())
        self._session.report(self._under_way)
        destinations = read_destinations(reader, self.claim_id, set(self._claimed.values()))
        row: Any = reader.execute(_CLAIM, [self.claim_id]).fetchone()
        self.is_isolation, offset = row[0], row[1] - time.monotonic()
        self.now = lambda: time.monotonic() + offset
        self._handlers = {to.id for to in destinations.values() if isinstance(to, HandlerDestination)}
        return claimed, destinations

    async def mark(self, delivery: Delivery) -> None:
        """Write down that a candidate is about to begin."""
        await asyncio.to_thread(
            self._reader.execute, "UPDATE node SET start_mark = %s WHERE id = %s", [delivery.message_id, self.id]
        )

    def begin(self, deliveries: Sequence[Delivery]) -> None:
        """Note deliveries of one destination that begin, before they do; a handler's have begun."""
        ids = [delivery.message_id for delivery in deliveries]
        if deliveries[0].destination_id not in self._handlers:
            self._session.begun.note(ids)
        self._begun.update(ids)

    def count_sandboxes(self, destination_id: int, count: Callable[[], int]) -> None:
        """Have the sandboxes of a handler counted by this function, which another thread may call."""
        self._sandboxes[destination_id] = count

    def record(self, attempt: AttemptRecord) -> None:
        """Count an outcome, and have it written soon."""
        self._recorded.add(attempt.message_id)
        if attempt.error_class in TRANSPORT_CAUSES and attempt.destination_id is not None:
            cause = TRANSPORT_CAUSES[attempt.error_class]
            self._causes.setdefault(attempt.destination_id, Counter())[cause] += 1
        self._recorded_there[attempt.destination_id] += 1
        self._session.record(attempt)

    def nothing_more_begins(self, taken: Set[int], beginning: Set[int]) -> None:
        """Release what is left; some destinations may begin some of theirs still."""
        begun = taken | self._recorded | self._released
        left = [one for one, to in self._claimed.items() if to not in beginning and one not in begun]
        self._released.update(left)
        self._released_there.update(self._claimed[one] for one in left)
        self._session.release(left, waits=not beginning)
        if not beginning and not self._is_waiting:
            self._is_waiting = True
            self._waits()

    def end(self, counts: Mapping[int, Tally] | None) -> None:
        """Write the last outcomes, and with them the result of the shard; None: its delivery was broken off."""
        tallies = [] if counts is None else [asdict(self._tally(to, counts)) for to in self._claimed_there]
        unanswered = sorted(self._begun - self._recorded)
        try:
            if self._session.end(begun=len(self._begun), unanswered=unanswered, tallies=tallies):
                remove_journals(self.id)
        finally:
            self._session.begun.close()

    def _under_way(self) -> dict[int, int]:
        """Return by destination how many have no outcome, and were begun or may still be; of handlers' sandboxes, how
        many live if they are more.
        """
        left = {
            to: max(n - self._recorded_there[to] - self._released_there[to], self._sandboxes.get(to, int)())
            for to, n in self._claimed_there.items()
        }
        return {to: n for to, n in left.items() if n > 0}

    def _tally(self, destination_id: int, counts: Mapping[int, Tally]) -> DestinationTally:
        tally = counts.get(destination_id, Tally())
        common = self._causes.get(destination_id, Counter()).most_common(1)
        return DestinationTally(
            destination_id,
            claimed=self._claimed_there[destination_id] - tally.ruled,
            begun=tally.begun,
            delivered=tally.delivered,
            failed=tally.failed,
            transport_failures=tally.transport_failures,
            cause=common[0][0] if common else None,
            seconds=tally.seconds,
        )


def deliver_shard(sessions: Sessions, *, claim_id: int, shard: int, waits: Callable[[], None] = lambda: None) -> bool:
    """Deliver the shard unless another task did or does; return whether it was this one.

    `waits` is called once when nothing more may begin. Every delivery that began has its outcome written when this
    returns, and the node's row has the result of the shard.
    Errors: `psycopg.OperationalError` when the database stays away.
    """
    session = enter(sessions, claim_id=claim_id, shard=shard, budget_seconds=START_BUDGET_SECONDS)
    if session is None:
        return False
    node = ShardNode(session, claim_id, shard, waits)
    counts: Mapping[int, Tally] | None = None
    try:
        counts = asyncio.run(_deliver(node, sessions.reader()))
    finally:
        node.end(counts)
    return True


async def _deliver(node: ShardNode, reader: Session) -> Mapping[int, Tally] | None:
    """Run the delivery to its end and return its counts by destination; None when it had to be broken off."""
    claimed, destinations = node.read(reader)
    rules = read_rules(reader, {one.address for one in claimed})
    brokers = {to.id for to in destinations.values() if isinstance(to, BrokerDestination)}
    deliveries = screened(with_bodies(reader, claimed, brokers), rules, reader, node.now)
    delivering = asyncio.ensure_future(deliver_all(deliveries, destinations, node, guard=guard_from(os.environ)))
    grace_until = float("inf")
    while not delivering.done():
        await asyncio.wait([delivering], timeout=0.2)
        if node.is_stopping():
            grace_until = min(grace_until, time.monotonic() + STOP_GRACE_SECONDS)
            if time.monotonic() > grace_until:
                delivering.cancel()
                await asyncio.wait([delivering], timeout=1)
                return None
    return delivering.result()
