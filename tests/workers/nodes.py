"""A node without a database, to deliver for."""

import time
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any

from poisonadmin.messages.domain.attempt import AttemptRecord
from workers.delivery.deliveries import Delivery


class RecordingNode:
    """Lets deliveries begin for a minute, and keeps the outcomes. `options`: attributes or methods in place of these.

    `begun`, `marked`: the messages that were begun, and the candidates that were written down as begun, in their order.
    """

    def __init__(self, **options: Any) -> None:
        end = time.monotonic() + 60
        self.id = 7
        self.claim_id: int | None = 7
        self.shard: int | None = 3
        self.is_isolation = False
        self.journals = Path()
        self.rows: list[AttemptRecord] = []
        self.begun: list[int] = []
        self.marked: list[int] = []
        self.now: Callable[[], float] = time.time
        self.start_deadline: Callable[[], float] = lambda: end
        self.lease_deadline: Callable[[], float] = lambda: end + 30
        self.is_stopping: Callable[[], bool] = lambda: False
        self.record: Callable[[AttemptRecord], None] = self.rows.append
        for name, value in options.items():
            assert hasattr(self, name), name
            setattr(self, name, value)

    async def mark(self, delivery: Delivery) -> None:
        self.marked.append(delivery.message_id)

    def begin(self, deliveries: Sequence[Delivery]) -> None:
        self.begun += [delivery.message_id for delivery in deliveries]

    def written(self) -> int:
        return len(self.rows)

    def count_sandboxes(self, destination_id: int, count: Callable[[], int]) -> None:
        """Count none: there is nobody to tell."""

    def nothing_more_begins(self, taken: Set[int], beginning: Set[int]) -> None:
        """Keep nothing back: there is nobody to release it to."""
