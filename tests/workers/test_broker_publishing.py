"""What publishers make of a broker's answers; no broker is needed for it."""

from types import SimpleNamespace
from typing import Any

from workers.brokers.artemis.publisher import _StompSending
from workers.brokers.contract import Outgoing, Results


def test_what_follows_a_refused_message_is_not_delivered_until_it_is_sent_again() -> None:
    batch = [Outgoing(b"", "text/plain", {}, {}, "orders", f"m-{n}") for n in range(5)]
    results: Results = [None] * 5
    connection: Any = SimpleNamespace(receipts={"0"})
    sending = _StompSending(connection, SimpleNamespace(), batch, results)  # type: ignore[arg-type]
    sending.unconfirmed = {str(n): n for n in range(5)}

    again = sending.fail_after("refused", "2")

    assert again == [3, 4]
    failed = [one and one.exception_class for one in results]
    assert failed == [None, "ConfirmLost", "BrokerRefused", "ConfirmLost", "ConfirmLost"]
