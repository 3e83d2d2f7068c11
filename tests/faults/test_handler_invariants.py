"""The checks on handlers, broken by hand one by one: each must see it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from poisonadmin.delivery.commands.settle import settle
from tests.delivery.test_isolation import CRASH, alone
from tests.faults import handler_invariants
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue, make_handler
from tests.messages.overlap import rows
from tests.messages.simulated_tasks import execute
from tests.whole_system.consumer import Arrival

pytestmark = pytest.mark.django_db


def ask(query: str) -> list[tuple[object, ...]]:
    """Ask as a run does: behind a WITH."""
    return rows(f"WITH nothing AS (SELECT 1) {query}")


@pytest.fixture
def delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return what hands in a message and has it delivered."""
    (tmp_path / "shop.py").write_text("def handle(message): ...\n")
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    make_handler()

    def deliver() -> int:
        (message,) = enqueue(message_id="innocent")
        taken = claim()
        end_nodes(taken)
        execute("UPDATE node SET lease_until = now() + interval '1 minute'")
        answer([message])
        settle()
        return message

    return deliver


def seen(message: int, attempt: int = 1, at: float = 0.0) -> Arrival:
    """Return what the handler notes."""
    return Arrival(message, attempt, "orders.eu", at, 200, b"", "")


def test_a_message_that_is_delivered_is_in_order(delivered: Callable[[], int]) -> None:
    arrivals = [seen(delivered())]
    assert handler_invariants.accused(ask, (), 0) == []
    assert handler_invariants.unexplained(ask, arrivals) == []
    assert handler_invariants.past_the_lease(ask, arrivals) == []
    assert handler_invariants.repeated(ask, arrivals) == 0


def test_an_innocent_that_is_blamed_is_seen(delivered: Callable[[], int]) -> None:
    delivered()
    execute("UPDATE message SET candidate = TRUE")
    assert handler_invariants.accused(ask, (), 0) != []
    assert handler_invariants.accused(ask, {"innocent"}, 0) == []


def test_a_crash_that_nobody_made_is_seen_and_one_that_an_outsider_made_is_not(delivered: Callable[[], int]) -> None:
    (message,) = enqueue(message_id="hit")
    claim()
    answer([message], "crashed", **CRASH)
    settle()
    alone()
    answer([message])
    settle()
    assert "1 crashes of innocents" in handler_invariants.accused(ask, (), 0)[0]
    assert handler_invariants.accused(ask, (), 1) == []


def test_a_killer_that_was_spared_is_seen(delivered: Callable[[], int]) -> None:
    delivered()
    assert handler_invariants.spared(ask, {"innocent"}) != []


@pytest.mark.parametrize(
    "arrivals",
    [lambda message: [seen(message), seen(message)], lambda message: [seen(message, 2)]],
    ids=["twice", "in-an-attempt-that-never-was"],
)
def test_a_delivery_without_an_explanation_is_seen(
    delivered: Callable[[], int], arrivals: Callable[[int], list[Arrival]]
) -> None:
    assert handler_invariants.unexplained(ask, arrivals(delivered())) != []


def test_a_delivery_past_the_lease_is_seen(delivered: Callable[[], int]) -> None:
    message = delivered()
    assert handler_invariants.past_the_lease(ask, [seen(message, at=9e9)]) != []
    assert handler_invariants.past_the_lease(ask, [seen(message, attempt=2, at=1.0)]) != []
