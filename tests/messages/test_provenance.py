"""Where a message has been."""

from datetime import UTC, datetime

from poisonadmin.messages.domain.provenance import Hop, append_hop, first_address, origin_properties


def _hop(address: str) -> Hop:
    return Hop(address, None, "order-7", "attempts_exhausted", datetime(2026, 1, 31, tzinfo=UTC), "policy")


def test_hops_are_appended_and_none_is_replaced() -> None:
    hops = append_hop(append_hop((), _hop("orders")), _hop("dead"))
    assert [hop.address for hop in hops] == ["orders", "dead"]


def test_the_first_address_is_where_a_message_was_before_it_was_ever_moved() -> None:
    assert first_address((_hop("orders"), _hop("dead")), "park") == "orders"
    assert first_address((), "orders") == "orders"


def test_a_queue_of_its_own_is_named_as_the_origin() -> None:
    assert origin_properties("stocks", "order-7", "stocks.eu")["_AMQ_ORIG_QUEUE"] == "stocks.eu"
