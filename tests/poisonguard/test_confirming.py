"""What a guard tells of messages that PoisonAdmin had returned to their broker."""

import logging
from typing import Any

import pytest
from django.db import connection

from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.message import Confirmation
from poisonguard import confirming
from poisonguard.confirming import Confirmer, delivery_of
from poisonguard.errors import Unreachable
from poisonguard.server import Answer
from tests.fixtures.delivery import answer, claim, enqueue, make_destination
from tests.poisonguard.conftest import MakeGuard

FLUSH_SECONDS = 60


class Listener:
    """A server that answers as it is told and remembers what it was told."""

    def __init__(self, *answers: Answer | Unreachable) -> None:
        self.said: list[tuple[int, int | None]] = []
        self._answers = list(answers)

    def confirm(self, message_id: int, attempt: int | None) -> Answer:
        self.said.append((message_id, attempt))
        given = self._answers.pop(0) if self._answers else Answer(200, {}, 0.0)
        if isinstance(given, Unreachable):
            raise given
        return given


def confirmer(*answers: Answer | Unreachable) -> tuple[Confirmer, Listener]:
    listener = Listener(*answers)
    return Confirmer(listener), listener  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "headers",
    [
        {"PoisonAdmin-Message-Id": "17", "PoisonAdmin-Attempt": "2"},
        {"poisonadmin-message-id": 17, "poisonadmin-attempt": 2, "other": b"\xff"},
        {"PoisonAdmin_HYPHEN_Message_HYPHEN_Id": "17", "PoisonAdmin_HYPHEN_Attempt": "2"},
        [("PoisonAdmin-Message-Id", b"17"), ("PoisonAdmin-Attempt", b"2"), ("PoisonAdmin-Operation", None)],
    ],
)
def test_a_delivery_is_recognised_in_the_headers_of_every_broker(headers: Any) -> None:
    assert delivery_of(headers) == (17, 2)


@pytest.mark.parametrize("value", ["", "x", "-1", "١٧", "9" * 40, b"\xff", None, 1.5, True])
def test_what_is_no_id_is_none(value: Any) -> None:
    assert delivery_of({"PoisonAdmin-Message-Id": value}) is None


def test_headers_that_cannot_be_read_break_nothing(caplog: pytest.LogCaptureFixture) -> None:
    confirmer()[0].add(17)  # type: ignore[arg-type]
    assert "cannot be read" in caplog.text


def test_each_is_said_once_and_in_order() -> None:
    one, listener = confirmer()
    for message_id in range(1, 4):
        one.add({"PoisonAdmin-Message-Id": str(message_id)})
    assert one.flush(FLUSH_SECONDS)
    assert listener.said == [(1, None), (2, None), (3, None)]
    one.stop(FLUSH_SECONDS)


@pytest.mark.parametrize("trouble", [Unreachable("away"), Answer(503, {}, 0.0), Answer(401, {}, 0.0)])
def test_it_is_said_again_until_the_server_hears_it(trouble: Answer | Unreachable) -> None:
    one, listener = confirmer(trouble, trouble)
    one.add({"PoisonAdmin-Message-Id": "17"})
    assert one.flush(FLUSH_SECONDS)
    assert len(listener.said) == 3
    one.stop(FLUSH_SECONDS)


@pytest.mark.parametrize("status", [404, 409])
def test_what_the_server_will_not_hear_is_not_said_again(status: int, caplog: pytest.LogCaptureFixture) -> None:
    one, listener = confirmer(Answer(status, {"detail": "not delivered"}, 0.0))
    with caplog.at_level(logging.WARNING):
        one.add({"PoisonAdmin-Message-Id": "17"})
        assert one.flush(FLUSH_SECONDS)
    assert len(listener.said) == 1
    assert "not delivered" in caplog.text
    one.stop(FLUSH_SECONDS)


def test_a_server_that_stays_away_fills_no_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(confirming, "MAX_WAITING", 2)
    one, _ = confirmer(*[Unreachable("away")] * 1000)
    for message_id in range(5):
        one.add({"PoisonAdmin-Message-Id": str(message_id)})
    assert caplog.text.count("is not confirmed") == 3
    one.stop(0.01)


def test_a_guard_confirms_what_its_handler_has_processed_and_nothing_else(make_guard: MakeGuard) -> None:
    make_destination()
    processed, failed = enqueue(2)
    claim()
    answer([processed, failed])
    settle()
    with make_guard("orders.eu") as guard:
        headers = {"PoisonAdmin-Message-Id": str(processed), "PoisonAdmin-Attempt": "1"}
        assert guard.handle("1", b"body", len, confirm=headers) == 4
        with pytest.raises(ZeroDivisionError):
            guard.handle("2", b"body", lambda _: 1 // 0, confirm={"PoisonAdmin-Message-Id": str(failed)})
        guard.handle("3", b"body", len, confirm={"tenant": "a"})
    rows = Confirmation.objects.values_list("message_id", "attempt_number", "confirmed_by")
    assert list(rows) == [(processed, 1, "olga via guard")]
    connection.close()
