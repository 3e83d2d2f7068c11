"""A consumer's confirmation on what its broker took."""

import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.messages.commands.confirmations import NotDelivered, confirm
from poisonadmin.messages.queries.counts import unconfirmed
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Confirmation, Message
from tests.fixtures.delivery import answer, claim, enqueue
from tests.intake.staging import drained, letter, make_source
from tests.intake.store import rows as read

pytestmark = pytest.mark.django_db

CONSUMER = principal("billing", Role.OPERATOR)


@pytest.fixture
def broker(destination: str) -> Destination:
    """Make the destination of `orders.#` a queue whose consumer has an hour to confirm."""
    destination = Destination.objects.get(name=destination)
    destination.kind = "rabbitmq"
    destination.config = {"url": "amqp://broker.example", "concurrency": 500, "confirm_within_ms": 3_600_000}
    destination.save(update_fields=["kind", "config"])
    return destination


def delivered(destination: Destination, count: int = 1) -> list[int]:
    """Have the broker take messages."""
    ids = enqueue(count)
    claim()
    answer(ids, destination_id=destination.id)
    assert settle().delivered == count
    return ids


def is_late() -> None:
    read("UPDATE confirmation SET confirm_by = now() - interval '1 s' RETURNING message_id")


def found(**params: str) -> list[int]:
    page = list_messages(parse_filter({name: [value] for name, value in params.items()}), principal=SYSTEM)
    return sorted(row.id for row in page.results)


def test_what_a_broker_took_waits_for_the_word_of_its_consumer(broker: Destination) -> None:
    [message_id] = delivered(broker)
    message = get_message(message_id, principal=SYSTEM)
    assert (message.delivered_to, message.confirmed_at) == ("broker", None)
    assert read("SELECT confirm_by - delivered_at = interval '1 hour', destination_id FROM confirmation") == [
        (True, broker.id)
    ]
    assert (unconfirmed(SYSTEM).awaited, unconfirmed(SYSTEM).unanswered) == (1, 0)


def test_a_consumers_word_is_kept_with_its_name_and_the_first_counts(broker: Destination) -> None:
    [message_id] = delivered(broker)
    confirm(message_id, principal=CONSUMER, note="invoice 7")
    confirm(message_id, principal=SYSTEM, note="again")
    message = get_message(message_id, principal=SYSTEM)
    assert (message.delivered_to, message.confirmed_by, message.confirmation_note) == (
        "consumer",
        "billing",
        "invoice 7",
    )
    assert (unconfirmed(SYSTEM).awaited, unconfirmed(SYSTEM).unanswered) == (0, 0)


def test_what_is_not_confirmed_in_time_is_unanswered(broker: Destination) -> None:
    late, confirmed = delivered(broker, 2)
    confirm(confirmed, principal=CONSUMER)
    is_late()
    [awaited] = delivered(broker)
    assert found(confirmation="unanswered") == [late]
    assert found(confirmation="awaited") == [awaited]
    assert found(confirmation="confirmed") == [confirmed]
    assert found(q="confirmation:unanswered") == [late]
    assert unconfirmed(SYSTEM).unanswered == 1
    assert unconfirmed(principal("other", Role.VIEWER, ["invoices.#"])).unanswered == 0
    confirm(late, principal=CONSUMER)
    assert found(confirmation="unanswered") == []


def test_nothing_is_awaited_where_no_time_is_set_and_a_word_is_kept_all_the_same(broker: Destination) -> None:
    Destination.objects.update(config={"url": "amqp://broker.example", "concurrency": 500})
    [message_id] = delivered(broker)
    assert Confirmation.objects.count() == 0
    assert get_message(message_id, principal=SYSTEM).delivered_to == "broker"
    confirm(message_id, principal=CONSUMER)
    assert get_message(message_id, principal=SYSTEM).delivered_to == "consumer"


def test_who_answers_a_request_has_taken_the_message_itself(destination: str) -> None:
    [message_id] = delivered(Destination.objects.get(name=destination))
    assert get_message(message_id, principal=SYSTEM).delivered_to == "consumer"


def test_a_consumer_may_be_faster_than_the_settling_of_its_delivery(broker: Destination) -> None:
    ids = enqueue()
    claim()
    confirm(ids[0], principal=CONSUMER, attempt=1)
    assert get_message(ids[0], principal=SYSTEM).delivered_to is None
    answer(ids, destination_id=broker.id)
    settle()
    message = get_message(ids[0], principal=SYSTEM)
    assert (message.delivered_to, message.confirmed_by, message.confirm_by is not None) == ("consumer", "billing", True)


def test_a_word_on_a_delivery_that_failed_says_nothing_of_the_next(broker: Destination) -> None:
    ids = enqueue()
    claim()
    confirm(ids[0], principal=CONSUMER)
    answer(ids, "failed", destination_id=broker.id)
    settle()
    claim()
    with pytest.raises(NotDelivered):
        confirm(ids[0], principal=CONSUMER, attempt=1)
    answer(ids, destination_id=broker.id)
    settle()
    assert get_message(ids[0], principal=SYSTEM).delivered_to == "broker"
    assert unconfirmed(SYSTEM).awaited == 1


def test_a_word_on_an_earlier_delivery_of_what_is_delivered_counts(broker: Destination) -> None:
    ids = enqueue()
    claim()
    answer(ids, "failed", destination_id=broker.id)
    settle()
    claim()
    answer(ids, destination_id=broker.id)
    settle()
    confirm(ids[0], principal=CONSUMER, attempt=1)
    assert get_message(ids[0], principal=SYSTEM).delivered_to == "consumer"
    with pytest.raises(NotDelivered):
        confirm(ids[0], principal=CONSUMER, attempt=3)


def test_what_is_not_delivered_cannot_be_confirmed(broker: Destination) -> None:
    [message_id] = enqueue()
    with pytest.raises(NotDelivered) as refused:
        confirm(message_id, principal=CONSUMER)
    assert refused.value.state == "TBDL"


@pytest.mark.parametrize("message_id", [-1, 999_999, 2**62])
def test_what_is_not_there_or_out_of_scope_cannot_be_confirmed(broker: Destination, message_id: int) -> None:
    [there] = delivered(broker)
    with pytest.raises(NotFound):
        confirm(message_id, principal=CONSUMER)
    with pytest.raises(NotFound):
        confirm(there, principal=principal("other", Role.OPERATOR, ["invoices.#"]))


def test_what_came_back_is_no_longer_awaited(broker: Destination) -> None:
    [message_id] = delivered(broker)
    source: Source = make_source()
    assert drained(source, letter(back=(message_id, 1))).returned == 1
    assert Confirmation.objects.count() == 0
    assert get_message(message_id, principal=SYSTEM).delivered_to is None
    assert Message.objects.get().state == "NDLV"


def test_nul_and_lone_surrogates_in_a_note_are_kept_as_far_as_they_can_be(broker: Destination) -> None:
    [message_id] = delivered(broker)
    confirm(message_id, principal=CONSUMER, note="a\0b\ud800")
    with connection.cursor() as cursor:
        cursor.execute("SELECT note FROM confirmation")
        assert cursor.fetchone() == ("a\ufffdb?",)
