"""Handlers run in sandboxes, without a database: the deliveries come from a list, the outcomes go to one."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poisonadmin.delivery.domain.attempt import AttemptRecord
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery, Summary
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.run import NodeSide

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
    pages: Path,
    *,
    callable_name: str = "deadly:handle",
    seconds: float = 30.0,
    is_isolation: bool = False,
    blames_all: bool = False,
    chain: int | None = None,
    stop: threading.Event | None = None,
    **limits: Any,
) -> Handled:
    """Have the handler do each deed, as message 1, 2, 3 …, and return what it came to."""
    destination = HandlerDestination(1, "h", callable_name, **{"roots": (str(HANDLERS),)} | LIMITS | limits)
    handled = Handled()

    async def mark(delivery: Delivery) -> None:
        handled.marked.append(delivery.message_id)

    deliveries = [
        Delivery(
            number,
            1,
            1,
            "orders",
            f"m{number}",
            "text/plain",
            {"n": str(number)},
            deed.encode(),
            blames_all=blames_all,
            chain=chain,
        )
        for number, deed in enumerate(deeds, 1)
    ]
    until = time.monotonic() + seconds
    handled.summary = asyncio.run(
        deliver_all(
            deliveries,
            {1: destination},
            start_deadline=lambda: until,
            stop=stop or threading.Event(),
            record=handled.rows.append,
            claim_id=1,
            shard=0,
            began=lambda delivery: handled.begun.append(delivery.message_id),
            node=NodeSide(7, pages, is_isolation, lambda: until + 30, mark, lambda: len(handled.rows)),
        )
    )
    return handled
