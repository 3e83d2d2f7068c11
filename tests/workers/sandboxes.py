"""Handlers run in sandboxes, without a database: the deliveries come from a list, the outcomes go to one."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.workers.nodes import RecordingNode
from tests.workers.sinks import Summary, summary_of
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.destination import HandlerDestination

HANDLERS = Path(__file__).parents[1] / "handlers"
LIMITS: dict[str, Any] = {"memory_mb": 128, "cpu_seconds": 1.0, "timeout_ms": 3000}


@dataclass
class Handled:
    """What a run came to. `marked`: the candidates in the order in which they were written down as begun."""

    summary: Summary | None = None
    rows: list[AttemptRecord] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    marked: list[int] = field(default_factory=list)

    def outcomes(self) -> dict[int, str]:
        """Return the outcome of each message, which must have exactly one."""
        found = {row.message_id: row.outcome for row in self.rows}
        assert len(found) == len(self.rows), "a message has two outcomes"
        return found

    @property
    def only(self) -> AttemptRecord:
        """The one row."""
        [row] = self.rows
        return row


def handle(
    deeds: Sequence[str],
    journals: Path,
    *,
    callable_name: str = "deadly:handle",
    seconds: float = 30.0,
    is_isolation: bool = False,
    chain: int | None = None,
    stop: threading.Event | None = None,
    **limits: Any,
) -> Handled:
    """Have the handler do each deed, as message 1, 2, 3 …, and return what it came to."""
    destination = HandlerDestination(1, "h", callable_name, **{"roots": (str(HANDLERS),)} | LIMITS | limits)

    deliveries = [
        Delivery(
            number,
            1,
            1,
            "orders",
            f"m{number}",
            "text/plain",
            headers={"n": str(number)},
            payload=deed.encode(),
            chain=chain,
        )
        for number, deed in enumerate(deeds, 1)
    ]
    until = time.monotonic() + seconds
    node = RecordingNode(
        claim_id=1,
        shard=0,
        is_isolation=is_isolation,
        journals=journals,
        start_deadline=lambda: until,
        lease_deadline=lambda: until + 30,
        is_stopping=(stop or threading.Event()).is_set,
    )
    tallies = asyncio.run(deliver_all(deliveries, {1: destination}, node))
    return Handled(summary_of(tallies), node.rows, node.begun, node.marked)
