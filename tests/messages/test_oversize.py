"""Payloads above their address's `max_payload_bytes`: kept, delivered to nobody, decided upon by people."""

import io
import json

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.commands import refused_decisions
from poisonadmin.delivery.commands.claim import claim_due
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.messages.commands.oversize import reject_oversized, reject_waiting
from poisonadmin.policies.commands import delete_policy, save_policy
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.history import History
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.message import Body, Message
from poisonadmin.store.models.rule import PolicyRow
from tests.fixtures.decisions import approve, mark_fail, postpone, return_to_original
from tests.fixtures.delivery import (
    answer,
    claim,
    counted,
    counters,
    end_nodes,
    enqueue,
    make_destination,
    run_shards,
    states,
)

LIMIT = 100
LARGE = "x" * (LIMIT + 1)
FITS = "x" * LIMIT
NOTE = f"The payload has {LIMIT + 1} bytes; orders.eu takes at most {LIMIT} (max_payload_bytes)."


def limit(payload_bytes: int, match: str = "orders.#") -> None:
    """Let the addresses that match take so many bytes."""
    save_policy(match, preset=None, settings={"max_payload_bytes": payload_bytes}, destination="shop", principal=SYSTEM)


def last(message_id: int) -> tuple[str, str, str | None, str | None]:
    """Return event, state, reason and note of a message's last history row."""
    row = History.objects.filter(message_id=message_id).order_by("-seq").first()
    assert row is not None
    return row.event, row.to_state, row.reason, row.note


@pytest.fixture
def small(db: None) -> None:
    """Let `orders.#` deliver, and take at most 100 bytes."""
    make_destination(max_payload_bytes=LIMIT)


def test_a_payload_that_is_too_large_is_kept_and_not_delivered(small: None) -> None:
    large, fits = enqueue(payload=LARGE) + enqueue(payload=FITS)
    assert states([large, fits]) == ["NDLV", "TBDL"]
    message = Message.objects.get(id=large)
    assert (message.reason, message.due_at, message.attempt_number) == ("oversized", None, 0)
    assert last(large) == ("enqueued", "NDLV", "oversized", NOTE)
    assert bytes(Body.objects.get(id=large).payload) == LARGE.encode()
    claim()
    assert states([large, fits]) == ["NDLV", "DLNG"]
    assert counters() == counted()


def test_the_same_message_again_is_the_one_that_is_there(small: None) -> None:
    assert enqueue(payload=LARGE, message_id="7") == enqueue(payload=LARGE, message_id="7")


def test_a_batch_is_judged_line_by_line_and_address_by_address(small: None) -> None:
    limit(LIMIT * 2, "orders.us")
    lines = [
        {"address": "orders.eu", "message_id": "large", "payload": LARGE, "expires_at": "2999-01-01T00:00:00Z"},
        {"address": "orders.eu", "message_id": "fits", "payload": FITS},
        {"address": "orders.us", "message_id": "takes more", "payload": LARGE},
        {"address": "orders.dlq", "message_id": "dead", "payload": LARGE, "dead_letter": {}},
        {"address": "parked", "message_id": "elsewhere", "payload": LARGE},
    ]
    assert accept_stream([json.dumps(line).encode() + b"\n" for line in lines], principal=SYSTEM).accepted == 5
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT envelope.message_id, state, message.reason, due_at IS NULL, message.expires_at, note
               FROM message JOIN envelope USING (id) JOIN history ON history.message_id = message.id ORDER BY id"""
        )
        assert cursor.fetchall() == [
            ("large", "NDLV", "oversized", True, None, NOTE),
            ("fits", "TBDL", None, False, None, None),
            ("takes more", "TBDL", None, False, None, None),
            ("dead", "NDLV", "imported", True, None, None),
            ("elsewhere", "TBDL", None, False, None, None),
        ]
    assert counters() == counted()


def test_a_batch_of_nothing_but_large_ones_wakes_no_lane(small: None) -> None:
    accept_stream([json.dumps({"address": "orders.eu", "payload": LARGE}).encode()], principal=SYSTEM)
    assert claim_due(tasks=1) is None
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT next_due FROM lane")
        assert cursor.fetchall() == [(None,)]


def test_what_waits_when_the_limit_is_lowered_is_rejected(
    destination: str, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    large, fits, elsewhere = (
        *enqueue(payload=LARGE),
        *enqueue(payload=FITS),
        *enqueue(payload=LARGE, address="orders.us"),
    )
    with django_capture_on_commit_callbacks(execute=True):
        limit(LIMIT, "orders.eu")
    assert states([large, fits, elsewhere]) == ["NDLV", "TBDL", "TBDL"]
    assert last(large) == ("rejected", "NDLV", "oversized", NOTE)
    assert counters() == counted()
    with django_capture_on_commit_callbacks(execute=True):
        limit(10, "orders.#")
    assert states([large, fits, elsewhere]) == ["NDLV", "TBDL", "NDLV"], "the more specific policy is in force"
    with django_capture_on_commit_callbacks(execute=True):
        delete_policy(PolicyRow.objects.get(match="orders.eu").id, principal=SYSTEM)
    assert states([fits]) == ["NDLV"], "what is in force now is less"


def test_every_message_is_found_when_there_are_more_than_one_transaction_takes(
    destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poisonadmin.messages.commands.oversize.MESSAGES_A_TRANSACTION", 3)
    monkeypatch.setattr("poisonadmin.messages.commands.oversize.MESSAGES_A_SEARCH", 7)
    large, fits = enqueue(20, payload=LARGE), enqueue(5, payload=FITS)
    limit(LIMIT)
    assert reject_waiting([Address.objects.get().id], actor="pat") == 20
    assert set(states(large)) == {"NDLV"}
    assert set(states(fits)) == {"TBDL"}
    assert counters() == counted()


def test_a_waiting_retry_is_rejected_too(destination: str) -> None:
    [large] = enqueue(payload=LARGE)
    postpone([large], until=Message.objects.get().due_at.replace(year=2999), principal=SYSTEM, reason="later")  # type: ignore[union-attr]
    limit(LIMIT)
    assert reject_waiting([Address.objects.get().id], actor="pat") == 1


def test_what_is_under_way_is_left_alone(destination: str) -> None:
    [large] = enqueue(payload=LARGE)
    claim()
    limit(LIMIT)
    assert reject_waiting([Address.objects.get().id], actor="pat") == 0
    with transaction.atomic(), connection.cursor() as cursor:
        assert reject_oversized(cursor, [large]) == 0
    assert states([large]) == ["DLNG"]


def test_what_comes_back_is_judged_by_the_limit_in_force(destination: str) -> None:
    [large] = enqueue(payload=LARGE)
    taken = claim()
    limit(LIMIT)
    end_nodes(taken)
    settle()
    assert states([large]) == ["NDLV"]
    assert last(large) == ("rejected", "NDLV", "oversized", NOTE)
    assert counters() == counted()


def test_what_is_too_large_cannot_be_approved_before_the_limit_is_raised(small: None) -> None:
    [large] = enqueue(payload=LARGE)
    asked = {"principal": SYSTEM, "reason": "send it"}
    assert approve([large], **asked).refused == {large: "oversized"}  # type: ignore[arg-type]
    with pytest.raises(refused_decisions.Oversized, match="max_payload_bytes"):
        refused_decisions.only(approve([large], **asked), large, SYSTEM)  # type: ignore[arg-type]
    limit(LIMIT + 1)
    assert approve([large], **asked).changed == (large,)  # type: ignore[arg-type]
    taken = claim()
    answer([large])
    end_nodes(taken)
    assert states([large]) == ["DLNG"]


def test_an_imported_dead_letter_is_measured_by_the_address_that_it_goes_to(small: None) -> None:
    [dead] = enqueue(address="dead", payload=LARGE, dead_letter={"original_address": "orders.eu"})
    refused = return_to_original([dead], principal=SYSTEM, reason="again").refused
    assert refused == {dead: "oversized"}
    assert states([dead]) == ["NDLV"]
    assert mark_fail([dead], principal=SYSTEM, reason="enough").changed == (dead,)


def test_an_address_knows_whom_a_crash_accuses_there(destination: str) -> None:
    enqueue()
    enqueue(address="orders.us")
    save_policy("orders.us", preset=None, settings={"blame": "all_in_flight"}, destination=None, principal=SYSTEM)
    enqueue(address="orders.us.east")
    save_policy("orders.us.#", preset=None, settings={"blame": "all_in_flight"}, destination=None, principal=SYSTEM)
    enqueue(address="orders.us.west")
    assert dict(Address.objects.values_list("name", "blame")) == {
        "orders.eu": "exact",
        "orders.us": "all_in_flight",
        "orders.us.east": "all_in_flight",
        "orders.us.west": "all_in_flight",
    }


def test_a_task_never_reads_what_has_become_too_large(transactional_db: None, test_database_url: str) -> None:
    make_destination()
    large, fits = enqueue(payload=LARGE) + enqueue(payload=FITS)
    taken = claim()
    limit(LIMIT)
    assert states([large, fits]) == ["DLNG", "DLNG"]
    run_shards(test_database_url, taken)
    assert list(Attempt.objects.values_list("message_id", flat=True)) == [fits]
    settle()
    assert states([large, fits]) == ["NDLV", "TBDL"]
    assert last(large) == ("rejected", "NDLV", "oversized", NOTE)
    assert counters() == counted()


def test_what_was_not_written_down_before_an_upgrade_is_at_the_next_start(small: None) -> None:
    enqueue()
    Address.objects.update(max_payload_bytes=1, blame="all_in_flight")
    call_command("bootstrap", stdout=io.StringIO())
    assert list(Address.objects.values_list("max_payload_bytes", "blame")) == [(LIMIT, "exact")]
