"""A handler is given what came in, byte for byte; a payload that is too much is blamed alone."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.hostile_payloads import PAYLOADS
from tests.workers.nodes import RecordingNode
from tests.workers.sinks import delivery
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.destination import HandlerDestination

HANDLERS = Path(__file__).parents[1] / "handlers"
MIB = 1024 * 1024


def handled(
    deliveries: Sequence[Delivery],
    journals: Path,
    *,
    memory_mb: int = 1024,
    module: str = "witness",
    root: Path = HANDLERS,
) -> list[AttemptRecord]:
    """Hand the deliveries to a handler in one sandbox; return the outcomes in the order of their ids."""
    end = time.monotonic() + 60
    handler = HandlerDestination(1, module, f"{module}:handle", memory_mb=memory_mb, concurrency=1, roots=(str(root),))
    node = RecordingNode(shard=0, journals=journals, start_deadline=lambda: end, lease_deadline=lambda: end)
    asyncio.run(deliver_all(deliveries, {1: handler}, node))
    return sorted(node.rows, key=lambda row: row.message_id)


def seen(row: AttemptRecord) -> tuple[str, bytes]:
    """Return the outcome and what the witness said."""
    return row.outcome, bytes(row.output or b"")


def told(one: Delivery) -> tuple[str, bytes]:
    """Return what is expected of a delivery."""
    digest = hashlib.sha256(one.payload).hexdigest()
    return "delivered", f"{len(one.payload)} {digest} {one.message_id} {one.attempt_number}\n".encode()


def test_a_handler_is_given_hostile_payloads_as_they_came_in(tmp_path: Path) -> None:
    deliveries = [
        delivery(number, payload=payload, content_type=name)
        for number, (name, payload) in enumerate(PAYLOADS.items(), 1)
    ]
    assert [seen(row) for row in handled(deliveries, tmp_path)] == [told(one) for one in deliveries]


def test_a_handler_is_given_one_line_of_the_greatest_length(tmp_path: Path) -> None:
    one = delivery(payload=b"x" * 64 * MIB)
    assert [seen(row) for row in handled([one], tmp_path)] == [told(one)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_payload_that_does_not_fit_into_the_sandbox_is_blamed_and_no_other(place: int, tmp_path: Path) -> None:
    deliveries = [delivery(number, payload=b"small") for number in range(1, 4)]
    deliveries[place] = delivery(place + 1, payload=b"x" * 60 * MIB)
    rows = handled(deliveries, tmp_path, memory_mb=64)
    assert [row.outcome for row in rows] == ["crashed" if n == place else "delivered" for n in range(3)]
    assert rows[place].error_class == "HandlerOutOfMemory"
