"""Shards delivered as by Spark's tasks: in processes without Django, forked from one that has all imported."""

import multiprocessing
import os
from multiprocessing.connection import Connection
from typing import Any

from workers.delivery.shard import DestinationTally, deliver_shard

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


class ShardProcess:
    """A process that delivers a shard. When it dies another one is started, as Spark does."""

    def __init__(self, *shard: Any) -> None:
        self._shard = shard
        self._start()

    def _start(self) -> None:
        self._receiver, sender = _processes.Pipe(duplex=False)
        self._process = _processes.Process(target=_deliver, args=(sender, dict(os.environ), *self._shard), daemon=True)
        self._process.start()
        sender.close()

    def tallies(self) -> list[DestinationTally]:
        """Return what the shard came to, once it is delivered."""
        try:
            return self._result()
        except EOFError:
            self._start()
            return self._result()

    def _result(self) -> list[DestinationTally]:
        try:
            tallies: list[DestinationTally] = self._receiver.recv()
            return tallies
        finally:
            self._receiver.close()
            self._process.join()


def _deliver(
    sender: "Connection[Any, Any]", environment: dict[str, str], database_url: str, claim_id: int, shard: int
) -> None:
    os.environ.update(environment)
    sender.send(deliver_shard(database_url, claim_id=claim_id, shard=shard))
