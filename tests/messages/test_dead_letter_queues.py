"""Auto-created dead-letter queues: reached by both names, left when a message leaves (ART-13, ART-17)."""

from typing import Any

import pytest

from poisonadmin.addresses.queries import get_address
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import get_message, hops
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from tests.fixtures.decisions import return_to_original
from tests.fixtures.delivery import answer, claim, enqueue, make_destination

pytestmark = pytest.mark.django_db

WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}


@pytest.fixture
def dead(db: None) -> tuple[int, int]:
    """Return a message that died on `orders.eu` and one that died on `orders.us`."""
    make_destination(max_delivery_attempts=1, dead_letter_address="DLA", auto_create_dead_letter_resources=True)
    [europe], [america] = enqueue(address="orders.eu"), enqueue(address="orders.us")
    die(europe, america)
    return europe, america


def die(*messages: int) -> None:
    """Deliver once, in vain."""
    claim()
    answer(messages, "failed")
    settle()


def found(*names: str, who: Any = SYSTEM, **more: str) -> list[int]:
    """Return the ids of the messages at these addresses, oldest first."""
    asked = {"address": list(names), **{name: [text] for name, text in more.items()}}
    return [row.id for row in list_messages(parse_filter(asked), principal=who, ordering="id").results]


def test_a_queue_is_reached_by_its_own_name_and_with_its_address(dead: tuple[int, int]) -> None:
    europe, america = dead
    assert found("DLQ.orders.eu") == [europe]
    assert found("DLA::DLQ.orders.us") == [america]
    assert found("DLQ.orders.eu", "DLQ.orders.us") == [europe, america]
    assert found("DLQ.orders.eu", state="NDLV") == [europe]
    assert found("DLQ.orders.eu", "orders.#") == [europe]
    assert found("DLA") == [europe, america]
    assert found("elsewhere::DLQ.orders.eu") == []
    assert found("DLA::nothing") == []


def test_the_search_box_knows_queues_too(dead: tuple[int, int]) -> None:
    europe, america = dead
    for text, expected in (("address:DLQ.orders.eu", [europe]), ("!address:DLA::DLQ.orders.eu", [america])):
        asked = parse_filter({"q": [text]})
        assert [row.id for row in list_messages(asked, principal=SYSTEM).results] == expected


def test_a_dead_letter_address_names_its_queues(dead: tuple[int, int]) -> None:
    assert get_address("DLA", principal=SYSTEM).queues == ("DLQ.orders.eu", "DLQ.orders.us")
    assert get_address("orders.eu", principal=SYSTEM).queues == ()


def test_who_does_not_see_the_dead_letter_address_does_not_see_its_queues(dead: tuple[int, int]) -> None:
    outsider = principal("o", Role.OPERATOR, ["orders.#", "DLQ.#"])
    assert found("DLQ.orders.eu", who=outsider) == []


def test_a_moved_message_says_where_it_comes_from(dead: tuple[int, int]) -> None:
    message = get_message(dead[0], principal=SYSTEM)
    assert (message.address, message.queue, message.original_address) == ("DLA", "DLQ.orders.eu", "orders.eu")
    assert message.origin == {
        "_AMQ_ORIG_ADDRESS": "orders.eu",
        "_AMQ_ORIG_QUEUE": "orders.eu",
        "_AMQ_ORIG_MESSAGE_ID": message.message_id,
    }


def test_a_returned_message_has_left_the_queue_and_keeps_every_hop(dead: tuple[int, int]) -> None:
    europe, _ = dead
    return_to_original([europe], **WHY)
    assert found("DLQ.orders.eu") == []
    message = get_message(europe, principal=SYSTEM)
    assert (message.address, message.queue, message.origin) == ("orders.eu", None, {})
    die(europe)
    return_to_original([europe], **WHY)
    moves = hops(europe, principal=SYSTEM).results
    assert [(hop.from_address, hop.to_address) for hop in reversed(moves)] == [
        ("orders.eu", "DLA"),
        ("DLA", "orders.eu"),
    ] * 2


def test_the_reason_code_of_mq_is_kept(db: None) -> None:
    make_destination(max_delivery_attempts=-1, backout_threshold=1)
    [message] = enqueue()
    die(message)
    shown = get_message(message, principal=SYSTEM)
    assert shown.address == "SYSTEM.DEAD.LETTER.QUEUE"
    assert shown.origin["MQDLH_Reason"] == "MQRC_BACKOUT_THRESHOLD_REACHED (2362)"


def test_the_longest_name_of_a_queue_fits(db: None) -> None:
    address = "orders." + "x" * 248
    make_destination(
        max_delivery_attempts=1,
        dead_letter_address="DLA",
        auto_create_dead_letter_resources=True,
        dead_letter_queue_prefix="p" * 64,
        dead_letter_queue_suffix="s" * 64,
    )
    [message] = enqueue(address=address)
    die(message)
    assert get_message(message, principal=SYSTEM).queue == "p" * 64 + address + "s" * 64
