"""What a message from a broker is called here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.brokers.domain.broker_names import (
    address_for,
    content_digest,
    is_dead_letter_header,
    made_id,
    message_id_for,
)
from poisonadmin.core.domain.addresses import validate_address
from poisonadmin.messages.domain.envelope_fields import LIMITS

TEMPLATES = ["{original}", "{queue}", "dead.{queue}.{original}"]


@given(st.text(min_size=1), st.none() | st.text(), st.sampled_from(TEMPLATES))
def test_every_queue_has_an_address(queue: str, original: str | None, template: str) -> None:
    address = address_for(queue, original, template=template)
    assert validate_address(address) == address


def test_a_queue_whose_name_looks_like_a_place_in_the_template_is_a_name() -> None:
    assert address_for("{original}", "x", template="a.{queue}") == "a.{original}"


def test_long_names_that_differ_at_their_ends_have_addresses_of_their_own() -> None:
    assert address_for("q" * 300 + "1") != address_for("q" * 300 + "2")


@given(st.text(min_size=1, max_size=400))
def test_every_id_can_be_stored(given_id: str) -> None:
    found = message_id_for(given_id)
    assert found is not None
    assert found.isprintable()
    assert len(found) <= LIMITS.message_id_chars


def test_long_ids_that_differ_at_their_ends_stay_two() -> None:
    assert message_id_for("i" * 300 + "1") != message_id_for("i" * 300 + "2")


def test_a_digest_tells_messages_apart_by_each_of_their_parts() -> None:
    one = ("q", b"payload", {"a": "1"}, b"{}")
    others = [
        ("p", b"payload", {"a": "1"}, b"{}"),
        ("q", b"payloaf", {"a": "1"}, b"{}"),
        ("q", b"payload", {"a": "2"}, b"{}"),
        ("q", b"payload", {"a1": ""}, b"{}"),
        ("q", b"payload", {}, b"{}"),
        ("q", b"payload", {"a": "1"}, None),
        ("qp", b"ayload", {"a": "1"}, b"{}"),
    ]
    assert len({content_digest(*each) for each in (one, *others)}) == 1 + len(others)
    forth, back = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    assert content_digest("q", b"x", forth, None) == content_digest("q", b"x", back, None)


def test_equal_messages_get_ids_that_show_their_likeness_and_differ() -> None:
    one, other = made_id(b"d" * 32), made_id(b"d" * 32)
    assert one != other
    assert one[:16] == other[:16]


@pytest.mark.parametrize(
    "name",
    ["x-death", "x-last-death-reason", "X-Delivery-Count", "_AMQ_ORIG_ADDRESS", "kafka_dlt-exception-fqcn",
     "__connect.errors.topic", "dead-letter-reason", "PoisonAdmin-Attempt"],
)  # fmt: skip
def test_what_brokers_and_we_add_on_the_way_is_known(name: str) -> None:
    assert is_dead_letter_header(name)


@pytest.mark.parametrize("name", ["x-deaths", "tenant", "kafka_key", "x-dead-letter", "_AMQ_GROUP_ID", ""])
def test_what_the_producer_sent_is_none_of_it(name: str) -> None:
    assert not is_dead_letter_header(name)
