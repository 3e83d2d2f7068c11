"""Asynchronous delivery: all of a task's destinations at once, none waiting for another.

No Django and no Spark here: deliveries come in as an iterable, outcomes go to the node.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from poisonadmin.core.domain.ssrf import NetworkGuard
from workers.delivery.broker import BrokerDestination, BrokerSender
from workers.delivery.deliveries import Delivery, Tally, TaskDestination
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.sender import HandlerSender
from workers.delivery.http.exchange import HttpDestination, HttpSender
from workers.delivery.http.resolver import Lookup, system_lookup
from workers.delivery.run import DeliveryNode, Run
from workers.delivery.scheduler import HELD_BYTES, Buffer
from workers.delivery.sender import Sender

_SLICE = 128
# How soon a stop, or a lease that was cut short, is noticed while nothing is being begun.
_CHECK_SECONDS = 0.05


async def deliver_all(
    deliveries: Iterable[Delivery],
    destinations: Mapping[int, TaskDestination],
    node: DeliveryNode,
    *,
    guard: NetworkGuard = NetworkGuard(),  # noqa: B008  frozen
    lookup: Lookup = system_lookup,
) -> dict[int, Tally]:
    """Deliver until nothing is left or nothing more may be begun; return the counts by destination.

    Every delivery that was begun has been recorded afterwards.

    `deliveries` come in the order they are due; an iterator is read in a thread of its own, and not further than
    needed. The node's deadline is asked before each start; once it has passed, or the node is stopping, what is not
    begun is left alone and what is begun runs to its own timeout. What the node raises when it is handed an outcome
    ends the run and is raised here, after what was begun has ended. When this is cancelled, what is under way is broken
    off and not recorded: its outcome is unknown.
    """
    run = Run(node.claim_id, node.shard, node.now() - time.monotonic(), node)
    senders: dict[int, Sender] = {}

    def open_sender(to: TaskDestination) -> Sender:
        waiting = Buffer(HELD_BYTES // len(destinations))
        if isinstance(to, HandlerDestination):
            return HandlerSender(run, to, waiting=waiting)
        if isinstance(to, BrokerDestination):
            return BrokerSender(run, to, waiting=waiting)
        assert isinstance(to, HttpDestination)
        return HttpSender(run, to, guard, lookup, waiting=waiting)

    try:
        await _feed(run, deliveries, destinations, senders, open_sender)
        while run.may_begin() and not all(sender.is_idle for sender in senders.values()):
            run.quiet.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(run.quiet.wait(), _CHECK_SECONDS)
    except asyncio.CancelledError:
        for sender in senders.values():
            sender.break_off()
        raise
    finally:
        run.is_over = True
        for sender in senders.values():
            sender.leave_alone()
        node.nothing_more_begins(run.taken, run.beginning)
        await asyncio.gather(*(sender.close() for sender in senders.values()))
    if run.error is not None:
        raise run.error
    return run.tallies


async def _feed(
    run: Run,
    deliveries: Iterable[Delivery],
    destinations: Mapping[int, TaskDestination],
    senders: dict[int, Sender],
    open_sender: Callable[[TaskDestination], Sender],
) -> None:
    is_read_ahead = not isinstance(deliveries, Sequence)
    async for some in _slices(deliveries, in_thread=is_read_ahead):
        for delivery in some:
            tally = run.tally(delivery.destination_id)
            destination = destinations.get(delivery.destination_id)
            if destination is None or not run.may_begin():
                tally.not_begun += 1
                continue
            sender = senders.get(destination.id)
            if sender is None:
                sender = senders[destination.id] = open_sender(destination)
            if is_read_ahead and not await sender.has_room():
                sender.leave_out(delivery)
                continue
            sender.offer(delivery)
        if not run.may_begin():
            return


async def _slices(deliveries: Iterable[Delivery], *, in_thread: bool) -> AsyncIterator[Sequence[Delivery]]:
    """Yield the deliveries some at a time, letting those that are under way go on in between."""
    source = iter(deliveries)
    while True:
        if in_thread:
            some = await asyncio.to_thread(_take, source)
        else:
            some = _take(source)
            await asyncio.sleep(0)
        if not some:
            return
        yield some


def _take(source: Iterable[Delivery]) -> list[Delivery]:
    return list(itertools.islice(source, _SLICE))
