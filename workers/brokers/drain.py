"""Drains one shard of a source: read, store and commit, acknowledge; the next is read while this is stored.

Knows neither Spark nor Django.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from poisonadmin.intake.domain.draining import Drained
from workers.brokers.contract import BrokerError, Incoming, Reader, Shard, adapter
from workers.brokers.sources import read_source
from workers.brokers.staging import BrokerStaging, Stored

BATCH_MESSAGES = 2000
IDLE_SECONDS = 1.0
DRAIN_SECONDS = 10.0
# While something is being stored, its acknowledgement must not wait long for more to read.
_WHILE_STORING_SECONDS = 0.02
# A broker that is killed may lose acknowledgements that are younger.
_UNCERTAIN_SECONDS = 5.0


def drain_shard(
    database_url: str,
    source_id: int,
    shard: Shard,
    *,
    is_stopping: Callable[[], bool] = lambda: False,
    seconds: float = DRAIN_SECONDS,
    idle_seconds: float = IDLE_SECONDS,
) -> Drained:
    """Stage what waits in the shard until it is idle, the time is over, or it is to stop; return the result.

    What is counted is committed. A failure of the broker is in `Drained.error`. Errors: `psycopg.Error`.
    """
    try:
        source = read_source(database_url, source_id)
        reader = adapter(source.kind).open_reader(source.login, shard)
    except BrokerError as error:
        return Drained(is_empty=False, error=str(error))
    try:
        staging = BrokerStaging(database_url, source_id, template=source.template)
        try:
            draining = _Draining(reader, staging)
            return draining.run(time.monotonic() + seconds, idle_seconds, is_stopping)
        finally:
            staging.close()
    finally:
        reader.close()


class _Draining:
    """The state of one call. Readers belong to this thread, storing to another."""

    def __init__(self, reader: Reader, staging: BrokerStaging) -> None:
        self._reader = reader
        self._staging = staging
        self._drained = Drained()
        self._storing: tuple[Sequence[Incoming], Future[Stored]] | None = None
        self._acknowledged: list[tuple[int, bytes]] = []
        self._removed: deque[tuple[float, list[bytes]]] = deque()

    def run(self, deadline: float, idle_seconds: float, is_stopping: Callable[[], bool]) -> Drained:
        is_idle = False
        with ThreadPoolExecutor(1, thread_name_prefix="store") as self._thread:
            try:
                is_idle = self._read_until(deadline, idle_seconds, is_stopping)
                self._reader.finish()
                # What was given out in the meantime.
                while batch := self._reader.read(BATCH_MESSAGES, 0.0):
                    self._settle()
                    self._store(batch)
                self._settle()
            except BrokerError as error:
                self._count(Drained(is_empty=False, error=str(error)))
                self._after_failure()
            self._thread.submit(self._staging.forget, self._settled_receipts()).result()
        return self._drained if is_idle else self._drained + Drained(is_empty=False)

    def _read_until(self, deadline: float, idle_seconds: float, is_stopping: Callable[[], bool]) -> bool:
        """Read and store; return True when nothing more came."""
        last_at = time.monotonic()
        while time.monotonic() < deadline and not is_stopping():
            wait = _WHILE_STORING_SECONDS if self._storing else min(idle_seconds, 0.2)
            batch = self._reader.read(BATCH_MESSAGES, wait)
            if batch or self._storing:
                self._settle()
            if batch:
                last_at = time.monotonic()
                self._store(batch)
            elif time.monotonic() - last_at >= idle_seconds:
                return True
        return False

    def _store(self, batch: Sequence[Incoming]) -> None:
        done = self._settled_receipts()
        self._storing = (batch, self._thread.submit(self._staging.store, batch, done))

    def _settle(self) -> None:
        """Wait until what is being stored is committed, and acknowledge it."""
        if self._storing is None:
            return
        (batch, storing), self._storing = self._storing, None
        stored = self._counted(storing)
        self._reader.acknowledge(batch)
        self._acknowledged += stored.receipts

    def _settled_receipts(self) -> list[int]:
        """Return the receipts to be removed, and keep their digests for a while."""
        now = time.monotonic()
        self._removed.append((now, [digest for _, digest in self._acknowledged]))
        while self._removed[0][0] < now - _UNCERTAIN_SECONDS:
            self._removed.popleft()
        ids = [receipt for receipt, _ in self._acknowledged]
        self._acknowledged = []
        return ids

    def _after_failure(self) -> None:
        """Leave receipts of what is stored, and of what may be given out again though it was acknowledged."""
        if self._storing is not None:
            self._counted(self._storing[1])
        self._acknowledged = []
        digests = [digest for _, removed in self._removed for digest in removed]
        self._thread.submit(self._staging.leave_receipts, digests).result()

    def _counted(self, storing: "Future[Stored]") -> Stored:
        stored = storing.result()
        self._count(Drained(stored.staged, stored.recognised, stored.rejected))
        return stored

    def _count(self, more: Drained) -> None:
        self._drained = self._drained + more
