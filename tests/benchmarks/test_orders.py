"""The orders that the benchmarks have handled: as many killers as said, and honest ones that add up."""

import json
from types import SimpleNamespace

import pytest

from benchmarks import orders
from benchmarks.sandboxed import honest


def message(body: bytes) -> SimpleNamespace:
    """Return what a handler is called with, as far as it looks."""
    return SimpleNamespace(payload=body, json=lambda: json.loads(body))


def test_there_are_as_many_killers_as_said_and_each_has_a_place_of_its_own() -> None:
    deeds = orders.deeds(20_000, 40)
    assert len(deeds) == 20_000
    assert sum(deed in orders.KILLERS for deed in deeds) == 40
    assert set(deeds) == {"", *orders.KILLERS}


def test_an_order_has_about_a_kilobyte_and_the_handler_takes_it() -> None:
    body = orders.order()
    assert 900 < len(body) < 1_200
    honest.handle(message(body))


def test_an_order_that_does_not_add_up_is_rejected() -> None:
    wrong = json.dumps(json.loads(orders.order()) | {"total": 1}).encode()
    with pytest.raises(honest.OrderRejected):
        honest.handle(message(wrong))
