"""The way out to one handler destination: its queue, its sandboxes, and the blame when one crashes."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator

from poisonadmin.groups.domain.failures import Failure
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.outcomes import (
    CPU_LIMIT,
    JOURNAL_DAMAGED,
    NOT_LOADED,
    OUT_OF_MEMORY,
    TIME_LIMIT,
    crash_of,
    crash_row,
    failed_unbegun,
    failure_of,
    result_row,
)
from workers.delivery.handler.process import JournalPlace, Sandbox
from workers.delivery.run import Run
from workers.delivery.scheduler import Buffer
from workers.delivery.sender import Sender

# However long a module takes to import, what was claimed gets this long to be begun afterwards.
FIRST_SECONDS = 1.0
# How much a sandbox is given ahead: enough to be busy while its parent looks elsewhere, or what it can hold.
AHEAD_SECONDS = 0.05
MAX_AHEAD = 256
AHEAD_BYTES = 1 << 20
# A sandbox that crashes so often in a row without a message in turn will not do better the next time.
MAX_IDLE_CRASHES = 5
_WEIGHT_OF_THE_LAST = 0.1
# How soon it is noticed that nothing more may begin, or that a sandbox has nothing left to do.
_CHECK_SECONDS = 0.05


class HandlerSender(Sender):
    """Each worker has one sandbox, in isolation a new one for each message.

    What a sandbox was fed and had not begun when it died goes to the next one.
    """

    def __init__(self, run: Run, destination: HandlerDestination, *, waiting: Buffer) -> None:
        super().__init__(run, destination.id, destination.concurrency, waiting)
        self._destination = destination
        self._place = JournalPlace(run.node.journals, run.node.id, run.claim_id or 0, run.shard or 0, run.offset)
        self._again: deque[Delivery] = deque()
        self._idle: list[Sandbox] = []
        self._ready_at: float | None = None
        self._idle_crashes = 0
        # Until it has shown that it is fast, nothing is to wait behind a message that may be slow.
        self._seconds_each = 2 * AHEAD_SECONDS
        self._broken = None if destination.broken is None else Failure(NOT_LOADED, destination.broken)
        self._limits = {
            TIME_LIMIT: f"it took longer than {destination.timeout_ms} ms",
            CPU_LIMIT: f"it used more than {destination.cpu_seconds:g} s of processor time",
            JOURNAL_DAMAGED: "it changed its own journal",
            OUT_OF_MEMORY: f"it may have {destination.memory_mb} MB",
        }
        run.beginning.add(destination.id)
        # A worker has a sandbox, or is about to have another one.
        run.node.count_sandboxes(destination.id, lambda: len(self._workers) + len(self._idle))

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing is under way."""
        return super().is_idle and not self._again

    def leave_alone(self) -> None:
        """Go on: a handler has a while from when its module is imported."""

    async def close(self) -> None:
        """Wait for what was begun, leave alone what may not begin any more, end the sandboxes that nothing needs."""
        while self._workers:
            if not self._may_begin():
                self._leave()
            if not self._scheduler and not self._again:
                self._end_idle()
            await asyncio.wait(self._workers, timeout=_CHECK_SECONDS)
        self._leave()
        self._end_idle()

    def _leave(self) -> None:
        """Have what waits go back: it may begin elsewhere while something slow goes on here."""
        is_first = self._destination.id in self._run.beginning
        self._run.beginning.discard(self._destination.id)
        if is_first or self._again:
            self._tally.not_begun += len(self._again)
            self._run.taken.difference_update(one.message_id for one in self._again)
            self._again.clear()
            self._scheduler.clear()
            self._run.node.nothing_more_begins(self._run.taken, self._run.beginning)

    def _end_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _may_begin(self) -> bool:
        return time.monotonic() < self._deadline()

    def _deadline(self) -> float:
        run = self._run
        if run.error is not None or run.node.is_stopping():
            return 0.0
        until = run.node.start_deadline()
        if self._ready_at is None:
            until = float("inf")
        return min(max(until, (self._ready_at or 0.0) + FIRST_SECONDS), run.node.lease_deadline())

    async def _work(self) -> None:
        while self._may_begin() and (delivery := self._next()) is not None:
            if self._broken is not None:
                self._begin(delivery)
                self._finish(delivery, failed_unbegun(self._run, delivery, self._broken), in_transport=True)
                continue
            if self._run.node.is_isolation:
                await self._run.node.mark(delivery)
            await self._use(self._open(), delivery)

    def _open(self) -> Sandbox:
        if self._idle and not self._run.node.is_isolation:
            return self._idle.pop()
        return Sandbox(self._destination, self._place, next(self._run.sandbox_numbers))

    async def _use(self, sandbox: Sandbox, first: Delivery) -> None:
        """Feed a sandbox until there is nothing more or it has died."""
        self._feed(sandbox, [first])
        try:
            while sandbox.fed:
                await sandbox.stir()
                self._take(sandbox)
                if sandbox.is_dead:
                    break
                sandbox.keep_limits()
                self._begin(sandbox.in_turn)
                self._feed(sandbox, [] if self._run.node.is_isolation else self._more(sandbox))
        except asyncio.CancelledError:
            self._abandon(sandbox)
            raise
        if sandbox.is_dead:
            self._bury(sandbox)
        elif self._run.node.is_isolation:
            sandbox.close()
        else:
            self._idle.append(sandbox)

    def _feed(self, sandbox: Sandbox, deliveries: "Iterator[Delivery] | list[Delivery]") -> None:
        if self._ready_at is None and not sandbox.is_loading:
            self._ready_at = time.monotonic()
        sandbox.begin_until(self._deadline())
        sandbox.give_back(self._run.node.written())
        sandbox.feed(deliveries)

    def _begin(self, delivery: Delivery | None) -> None:
        """Note once that a handler has the message: its turn was seen, or what came of it."""
        if delivery is not None and not delivery.is_begun:
            delivery.is_begun = True
            self._run.begin([delivery], self._tally)

    def _more(self, sandbox: Sandbox) -> Iterator[Delivery]:
        ahead = min(MAX_AHEAD, int(AHEAD_SECONDS / max(self._seconds_each, 1e-6))) + 1
        room = AHEAD_BYTES - sum(len(delivery.payload) for delivery in sandbox.fed)
        count = ahead - len(sandbox.fed)
        while count > 0 and room > 0 and self._broken is None and self._may_begin():
            if (delivery := self._next()) is None:
                return
            yield delivery
            count -= 1
            room -= len(delivery.payload)

    def _next(self) -> Delivery | None:
        return self._again.popleft() if self._again else self._scheduler.next()

    def _take(self, sandbox: Sandbox) -> None:
        for delivery, result in sandbox.results():
            if delivery is None:
                self._broken = failure_of({**result.details, "class": NOT_LOADED, "message": _why_not(result.details)})
                continue
            self._idle_crashes = 0
            spent = result.finished - result.started
            self._seconds_each += (spent - self._seconds_each) * _WEIGHT_OF_THE_LAST
            self._begin(delivery)
            self._finish(delivery, result_row(self._run, delivery, result, owner=self._destination.owner))
        sandbox.keep_until(self._run.recorded)

    def _bury(self, sandbox: Sandbox) -> None:
        """Blame the message in turn, give what was not begun to the next sandbox."""
        self._take(sandbox)
        turn, blamed, end, was_loading = sandbox.turn, sandbox.in_turn, sandbox.crash(), sandbox.is_loading
        fed = sandbox.fed
        sandbox.close()
        failure = crash_of(
            end, callable_name=self._destination.callable, roots=self._destination.roots, limits=self._limits
        )
        if turn is not None and blamed is not None:
            fed.remove(blamed)  # those before it are there only when a damaged journal has lost their results
            self._begin(blamed)
            self._finish(blamed, crash_row(self._run, blamed, failure, end=end, began=turn.began))
            self._again.extendleft(reversed(fed))
            return
        self._again.extendleft(reversed(fed))
        self._idle_crashes += 1
        if self._broken is None and (was_loading or self._idle_crashes >= MAX_IDLE_CRASHES) and not self._is_stopped():
            when = "while its module was imported" if was_loading else "again and again between two messages"
            self._broken = Failure(NOT_LOADED, f"{failure.message} This happened {when}.")

    def _is_stopped(self) -> bool:
        return time.monotonic() >= self._deadline()

    def _abandon(self, sandbox: Sandbox) -> None:
        """End a sandbox whose message has no outcome: nobody knows how far it came, and nobody is accused."""
        self._take(sandbox)
        self._begin(sandbox.in_turn)
        sandbox.close()
        self._tally.not_begun += sum(not one.is_begun for one in sandbox.fed)


def _why_not(details: dict[str, object]) -> str:
    return f"the handler cannot be imported: {details.get('class')}: {details.get('message')}"
