"""What became of a message that a broker had taken: it comes back as a dead letter, and is opened again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.intake.commands.merge import Merged
from poisonadmin.sources.commands.draining import merge_left_over
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.message import Message
from tests.fixtures.decisions import approve
from tests.fixtures.delivery import answer, claim, counted, counters, states
from tests.intake.staging import drained, letter, make_source, moved
from tests.intake.store import assert_whole
from tests.intake.store import rows as read

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def source(destination: str) -> Source:
    return make_source()


def imported(source: Source, **fields: object) -> int:
    """Drain one dead letter and return its message."""
    assert drained(source, letter(**fields)).accepted == 1  # type: ignore[arg-type]
    return Message.objects.latest("id").id


def delivered(message_id: int) -> int:
    """Approve the message and have its broker take it; return the attempt."""
    approve([message_id], principal=SYSTEM, reason="repaired")
    claim()
    answer([message_id])
    settle()
    assert states([message_id]) == ["DLVD"]
    return Message.objects.get(id=message_id).attempt_number


def hops(message_id: int) -> list[tuple[str, str, str, str, int]]:
    return read(
        "SELECT from_address, to_address, reason, by, times FROM hop WHERE message_id = %s ORDER BY id", message_id
    )


def test_a_drained_dead_letter_is_ndlv_at_its_original_address_with_every_hop(source: Source) -> None:
    message_id = imported(source, died=moved(at=NOW, count=3))
    message = Message.objects.get(id=message_id)
    assert (message.state, message.reason, message.failure_count) == ("NDLV", "imported", 3)
    assert message.original_address_id is None
    assert hops(message_id) == [("orders.eu", "orders.dlq", "rejected", "rabbitmq", 3)]
    assert read("SELECT accepted, duplicates, rejected, returned FROM source") == [(1, 0, 0, 0)]
    assert_whole()


def test_a_returned_message_that_dies_again_is_opened_again(source: Source) -> None:
    message_id = imported(source, died=moved(at=NOW - timedelta(hours=1)))
    attempt = delivered(message_id)
    merged = drained(source, letter(died=moved("expired", at=NOW), back=(message_id, attempt)))
    assert (merged.returned, merged.accepted, merged.duplicates) == (1, 0, 0)
    message = Message.objects.get()
    assert (message.state, message.reason, message.failure_count, message.due_at) == ("NDLV", "returned", 3, None)
    assert read("SELECT title FROM failure_group WHERE id = %s", message.group_id or 0) == [
        ("OrderRejected: order … has no customer",)
    ]
    assert [reason for _, _, reason, _, _ in hops(message_id)] == ["rejected", "expired"]
    assert read("SELECT outcome, error_class, finished_at >= started_at IS NOT FALSE FROM attempt ORDER BY 1") == [
        ("imported", "shop.OrderRejected", True),
        ("returned", "shop.OrderRejected", True),
    ]
    assert read("SELECT from_state, to_state, event, actor, note FROM history ORDER BY seq DESC LIMIT 1") == [
        ("DLVD", "NDLV", "returned", "source rabbit", "expired")
    ]
    assert counted() == counters()
    assert_whole()


def test_the_same_return_delivered_twice_is_one(source: Source) -> None:
    message_id = imported(source)
    row = letter(died=moved(), back=(message_id, delivered(message_id)))
    assert drained(source, row, row).returned == 1
    assert drained(source, row).duplicates == 1
    assert states([message_id]) == ["NDLV"]
    assert len(hops(message_id)) == 1
    assert_whole()


def test_a_return_of_an_earlier_attempt_does_not_open_what_was_delivered_since(source: Source) -> None:
    message_id = imported(source)
    row = letter(back=(message_id, delivered(message_id)))
    drained(source, row)
    delivered(message_id)
    assert drained(source, row).duplicates == 1
    assert states([message_id]) == ["DLVD"]


def test_a_message_dies_as_often_as_it_is_returned(source: Source) -> None:
    message_id = imported(source, died=moved())
    for _ in range(3):
        assert drained(source, letter(died=moved(), back=(message_id, delivered(message_id)))).returned == 1
    assert len(hops(message_id)) == 4
    assert read("SELECT count(*) FROM attempt WHERE outcome = 'returned'") == [(3,)]
    assert Message.objects.get().failure_count == 3, "an approval starts the count anew"
    assert_whole()


def test_an_id_of_ours_on_another_payload_is_no_return(source: Source) -> None:
    message_id = imported(source)
    attempt = delivered(message_id)
    assert drained(source, letter(payload="of another", back=(message_id, attempt))).accepted == 1
    assert states([message_id]) == ["DLVD"]
    assert_whole()


@pytest.mark.parametrize("back", [(2**62, 1), (2**80, 1), (-1, 1), (1, 2**40)])
def test_an_id_that_no_message_has_is_no_return(source: Source, back: tuple[int, int]) -> None:
    assert drained(source, letter(back=back)).accepted == 1
    assert_whole()


def test_a_return_before_its_delivery_is_settled_waits_for_it(source: Source) -> None:
    message_id = imported(source)
    approve([message_id], principal=SYSTEM, reason="repaired")
    claim()
    answer([message_id])
    merged = drained(source, letter(back=(message_id, 1)), letter(payload="another"))
    assert (merged.accepted, merged.returned, merged.duplicates) == (1, 0, 0)
    assert states([message_id]) == ["DLNG"]
    assert merge_left_over(source.id) == Merged()
    assert read("SELECT split_part(batch, ':', 3) FROM staged_message") == [("later",)]
    settle()
    assert merge_left_over(source.id).returned == 1
    assert states([message_id]) == ["NDLV"]
    assert_whole()


def test_a_new_death_of_what_was_delivered_opens_it_also_without_our_header(source: Source) -> None:
    died = moved(at=NOW - timedelta(hours=1))
    message_id = imported(source, message_id="7", died=died)
    delivered(message_id)
    # Given out once more, though it was stored: the same death.
    assert drained(source, letter(message_id="7", died=died)).duplicates == 1
    assert states([message_id]) == ["DLVD"]
    again = letter(message_id="7", died=moved(at=NOW), headers={"x-death": "2"})
    merged = drained(source, again, again, letter(message_id="8"))
    assert (merged.returned, merged.duplicates, merged.accepted) == (1, 1, 1)
    assert Message.objects.get(id=message_id).reason == "returned"
    assert len(hops(message_id)) == 2
    assert drained(source, letter(message_id="7", payload="of another", died=moved(at=NOW))).conflicts == 1
    assert counted() == counters()
    assert_whole()


def test_a_return_of_what_is_decided_meanwhile_adds_its_moves_and_nothing_else(source: Source) -> None:
    message_id = imported(source)
    attempt = delivered(message_id)
    drained(source, letter(died=moved("rejected", at=NOW), back=(message_id, attempt)))
    approve([message_id], principal=SYSTEM, reason="again")
    assert drained(source, letter(died=moved("expired", at=NOW), back=(message_id, attempt))).duplicates == 1
    assert states([message_id]) == ["TBDL"]
    assert [reason for _, _, reason, _, _ in hops(message_id)] == ["rejected", "expired"]


def test_headers_that_a_broker_adds_on_the_way_make_no_other_body(source: Source) -> None:
    sent = {"tenant": "a"}
    drained(source, letter(message_id="7", headers=sent | {"x-delivery-count": "1"}))
    again = drained(source, letter(message_id="7", headers=sent | {"x-delivery-count": "2"}))
    other = drained(source, letter(message_id="7", headers={"tenant": "b"}))
    assert (again.duplicates, other.conflicts) == (1, 1)
    assert read("SELECT source_id, code FROM rejected_line") == [(source.id, "message_id_conflict")]
    assert read("SELECT accepted, duplicates, rejected FROM source") == [(1, 1, 1)]


def test_what_a_hostile_header_tells_is_kept_as_far_as_it_can_be(source: Source) -> None:
    wild = "\0" + "\ud800" + "x" * 100_000
    told = moved(wild, count=2**40)
    died = replace(told, exception_class=wild, stack=wild, delivery_count=2**40, moves=told.moves * 300)
    message_id = imported(source, died=died)
    assert len(hops(message_id)) == 100
    assert Message.objects.get().failure_count == 2**31 - 1
    assert drained(source, letter(died=died, back=(message_id, delivered(message_id)))).returned == 1
    assert Message.objects.get().failure_count == 2**31 - 1
