"""The response header `PoisonAdmin-Outcome` (R12)."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from aiohttp import web

from poisonadmin.messages.domain.attempt import AttemptRecord
from poisonadmin.messages.domain.outcomes import Outcome
from poisonadmin.store.models.destination import Destination
from tests.fixtures.delivery import claim, enqueue, make_destination, make_handler
from tests.workers.sinks import deliver, delivery, destination, http_sink
from workers.delivery.claimed import read_destinations
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.http.answers import ConsumerOutcome, InvalidOutcome, parse_outcome
from workers.delivery.http.exchange import HttpDestination

HERE = "orders.eu"


@pytest.mark.conformance("R12")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("discard", ConsumerOutcome(Outcome.DISCARDED)),
        ("Discard", ConsumerOutcome(Outcome.DISCARDED)),
        ('discard; why="not ours"', ConsumerOutcome(Outcome.DISCARDED, "not ours")),
        ("rollback", ConsumerOutcome(Outcome.ROLLED_BACK)),
        ('move; address="orders.late"', ConsumerOutcome(Outcome.MOVED, address="orders.late")),
        ("move;address=orders.late", ConsumerOutcome(Outcome.MOVED, address="orders.late")),
        ("end-conversation", ConsumerOutcome(Outcome.CONVERSATION_ENDED)),
        ("end-conversation; code=0", ConsumerOutcome(Outcome.CONVERSATION_ENDED)),
        ("end-conversation; code=17", ConsumerOutcome(Outcome.CONVERSATION_ENDED, error_code=17)),
        (
            'end-conversation; code=17; error="no; such, \\"order\\""',
            ConsumerOutcome(Outcome.CONVERSATION_ENDED, 'no; such, "order"', error_code=17),
        ),
        ('end-conversation; error="no"', ConsumerOutcome(Outcome.CONVERSATION_ENDED, "no", error_code=0)),
    ],
)
def test_what_a_consumer_asks_for(value: str, expected: ConsumerOutcome) -> None:
    assert parse_outcome(value, address=HERE) == expected


@pytest.mark.conformance("R12")
def test_a_consumer_moves_messages_within_its_destinations_owner_pattern_only() -> None:
    assert parse_outcome("move; address=orders.late", address=HERE, owner="orders.#").address == "orders.late"
    with pytest.raises(InvalidOutcome, match=r"bills is not among the addresses of this destination, orders.#"):
        parse_outcome("move; address=bills", address=HERE, owner="orders.#")


@pytest.mark.conformance("R12")
@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", "is none of discard, rollback, move, end-conversation"),
        ("explode", "'explode' is none of"),
        ("move", "move needs an address"),
        ('move; address=""', "move needs an address"),
        ('move; address="a..b"', "address"),
        (f'move; address="{HERE}"', "is on orders.eu already"),
        ("discard; address=x", "discard has no parameter 'address'"),
        ("end-conversation; code=many", "code must be a whole number"),
        ("end-conversation; code=-1", "code must be a whole number"),
        ("end-conversation; code=99999999999", "code must be a whole number"),
        ("discard; why=" + "x" * 5000, "more than 4096 characters"),
    ],
)
def test_what_cannot_be_done_is_named(value: str, names: str) -> None:
    with pytest.raises(InvalidOutcome) as refused:
        parse_outcome(value, address=HERE)
    assert names in refused.value.detail


@pytest.mark.parametrize(
    ("target", "expected"),
    [("orders.late", ("moved", "orders.late", None)), ("billing.late", ("failed", None, "InvalidAnswer"))],
)
def test_a_move_beyond_the_owner_pattern_is_a_failed_attempt(
    target: str, expected: tuple[str, str | None, str | None]
) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"PoisonAdmin-Outcome": f'move; address="{target}"'})

    async def run() -> AttemptRecord:
        async with http_sink(answer) as url:
            return (await deliver([delivery()], destination(url, owner="orders.#"))).row

    row = asyncio.run(run())
    assert (row.outcome, row.move_to, row.error_class) == expected


@pytest.mark.parametrize("make", [make_destination, make_handler])
def test_a_claim_is_delivered_with_the_owner_of_its_destination(
    make: Callable[[], str],
    transactional_db: None,
    test_database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "shop.py").touch()
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    make()
    Destination.objects.update(owner="orders.#")
    enqueue()
    taken = claim()
    with psycopg.connect(test_database_url) as reader:
        [found] = read_destinations(reader, taken.id, set(Destination.objects.values_list("id", flat=True))).values()
    assert isinstance(found, HttpDestination | HandlerDestination)
    assert found.owner == "orders.#"
