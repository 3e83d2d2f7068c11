"""The shards that a task has under way: one in which deliveries begin, and others that only wait for answers."""

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Self

from workers.delivery.sessions import Sessions
from workers.delivery.shard import deliver_shard

# An endpoint that hangs holds a shard, and a session of its node, for as long as its time-out.
MOST_WAITING = 5


class Shards:
    """Delivers shards, one after the other, each in a thread. `taken` counts them. On exit all have ended."""

    def __init__(self, sessions: Sessions) -> None:
        self.taken = 0
        self._sessions = sessions
        self._idle: list[Sessions] = []
        self._running: set[Future[bool]] = set()
        self._threads = ThreadPoolExecutor(MOST_WAITING + 1, thread_name_prefix="shard")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()
        for sessions in self._idle:
            sessions.close()

    @property
    def are_under_way(self) -> bool:
        """Return whether any waits for an answer."""
        return bool(self._running)

    def deliver(self, claim_id: int, shard: int) -> None:
        """Deliver a shard; return when it has ended, or only waits for answers and another one may begin beside it.

        Errors: those of `deliver_shard`, of any shard that has ended since the last call.
        """
        own = self._idle.pop() if self._idle else self._sessions.beside()
        only_waits: Future[bool] = Future()
        running = self._threads.submit(self._deliver, own, claim_id, shard, only_waits)
        self._running.add(running)
        wait({running, only_waits}, return_when=FIRST_COMPLETED)
        if len(self._running) > MOST_WAITING:
            wait(self._running, return_when=FIRST_COMPLETED)
        self.reap()

    def reap(self) -> None:
        """Count the shards that have ended. Errors: as `deliver`."""
        ended = {one for one in self._running if one.done()}
        self._running -= ended
        for one in ended:
            self.taken += one.result()

    def _deliver(self, own: Sessions, claim_id: int, shard: int, only_waits: "Future[bool]") -> bool:
        try:
            return deliver_shard(own, claim_id=claim_id, shard=shard, waits=lambda: only_waits.set_result(True))
        finally:
            self._idle.append(own)
