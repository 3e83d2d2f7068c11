"""The poison list through the API: reports, the list, releases, the event stream, heartbeats."""

import base64
from typing import Any

import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.poison import Consumer, PoisonEntry
from tests.fixtures.api import Caller, take
from tests.fixtures.delivery import make_orders_destination

SOURCE = "orders.eu"
WHY = {"reason": "repaired"}


def told(bookmark: str = "13", **more: Any) -> dict[str, Any]:
    """Return the body of a report."""
    return {"source": SOURCE, "bookmark": bookmark, "why": "it cannot be read", **more}


def report(caller: Caller, bookmark: str = "13", **more: Any) -> dict[str, Any]:
    """Report, and return the entry."""
    answer = caller.post("poison-list/", told(bookmark, **more))
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def message(message_id: Any) -> Message:
    """Return a message."""
    return Message.objects.get(id=message_id)


# --- what lists ---


def test_the_first_failure_lists(operator: Caller) -> None:
    entry = report(operator)
    assert (entry["is_listed"], entry["failures"], entry["crashes"], entry["why"]) == (True, 1, 0, "it cannot be read")


def test_a_crash_lists_at_the_second(operator: Caller) -> None:
    assert [report(operator, fatal=True)["is_listed"] for _ in range(2)] == [False, True]


@pytest.mark.parametrize(("limit", "listed"), [(1, [True, True]), (3, [False, False])])
def test_a_crash_lists_at_the_report_s_limit(limit: int, listed: list[bool], operator: Caller) -> None:
    assert [report(operator, fatal=True, crash_limit=limit)["is_listed"] for _ in range(2)] == listed


def test_the_policy_s_limits_hold_where_the_report_gives_none(operator: Caller) -> None:
    settings = {"failures_to_list": 2, "crashes_to_list": 3}
    save_policy("orders.#", preset=None, settings=settings, destination=None, principal=SYSTEM)
    assert [report(operator, "1")["is_listed"] for _ in range(2)] == [False, True]
    assert [report(operator, "2", fatal=True)["is_listed"] for _ in range(3)] == [False, False, True]
    assert report(operator, "3", fatal=True, crash_limit=1)["is_listed"]


def test_failures_and_crashes_are_counted_apart(operator: Caller) -> None:
    save_policy("orders.#", preset=None, settings={"failures_to_list": 2}, destination=None, principal=SYSTEM)
    report(operator, fatal=True)
    entry = report(operator)
    assert (entry["is_listed"], entry["failures"], entry["crashes"]) == (False, 1, 1)


def test_one_record_a_bookmark_and_the_last_reason_wins(operator: Caller) -> None:
    report(operator)
    report(operator, why="something else")
    (entry,) = operator.get("poison-list/").json()["results"]
    assert entry["why"] == "something else"


def test_the_same_report_sent_twice_counts_once(operator: Caller) -> None:
    for _ in range(2):
        answer = operator.post("poison-list/", told(fatal=True), Idempotency_Key="journal-1")
        assert answer.json()["crashes"] == 1
    other = operator.post("poison-list/", told(), Idempotency_Key="journal-1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_who_reported_it_is_said(operator: Caller) -> None:
    assert report(operator, consumer="billing-1")["reported_by"] == "billing-1 (operator via test)"


def test_bookmarks_keep_their_spaces(operator: Caller) -> None:
    assert report(operator, " 13 ")["bookmark"] == " 13 "
    assert len(operator.get("poison-list/").json()["results"]) == 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"bookmark": "a\nb"}, "invalid_bookmark"),
        ({"source": "a\tb"}, "invalid_poison_source"),
        ({"source": ""}, "invalid_request"),
        ({"crash_limit": 0}, "invalid_request"),
        ({"surprise": 1}, "invalid_request"),
        ({"payload": "x" * 262_145}, "payload_too_large"),
        ({"payload": "x", "payload_base64": "eA=="}, "payload_conflict"),
        ({"payload": "x", "source": "two words"}, "invalid_address"),
    ],
)
def test_what_is_no_report_is_refused(wrong: dict[str, Any], code: str, operator: Caller) -> None:
    answer = operator.post("poison-list/", told() | wrong)
    assert answer.json()["code"] == code
    assert not PoisonEntry.objects.exists()


# --- the stored message ---


def test_a_payload_is_stored_as_a_message_that_waits_for_a_decision(operator: Caller) -> None:
    body = base64.b64encode(b"\xff\x00").decode()
    more = {"payload_base64": body, "exception_class": "app.Unreadable", "headers": {"x-shop": "eu"}}
    entry = report(operator, **more)
    found = operator.get(f"messages/{entry['message_id']}/").json()
    expected = ("NDLV", "listed", SOURCE, "13", "13", {"x-shop": "eu"})
    assert (
        *(found["state"], found["reason"], found["address"], found["message_id"], found["bookmark"]),
        found["headers"],
    ) == expected
    assert operator.get(f"messages/{entry['message_id']}/payload/").content == b"\xff\x00"
    (attempt,) = operator.get(f"messages/{entry['message_id']}/attempts/").json()["results"]
    assert (attempt["attempt_number"], attempt["outcome"], attempt["error_class"]) == (0, "imported", "app.Unreadable")
    assert operator.get("groups/").json()["results"][0]["error_class"] == "app.Unreadable"
    assert operator.get("stats/").json()["by_reason"]["listed"]["NDLV"] == 1


def test_a_payload_is_stored_only_when_the_bookmark_is_listed(operator: Caller) -> None:
    assert report(operator, fatal=True, payload="x")["message_id"] is None
    assert report(operator, fatal=True, payload="x")["message_state"] == "NDLV"


def test_a_payload_that_is_reported_again_is_stored_once(operator: Caller) -> None:
    first, second = report(operator, payload="x"), report(operator, payload="x")
    assert first["message_id"] == second["message_id"]
    assert Message.objects.count() == 1


@pytest.mark.parametrize("fields", [{"bookmark": "13"}, {"message_id": "13"}])
def test_a_message_that_waits_under_the_bookmark_goes_along(fields: dict[str, str], operator: Caller) -> None:
    message_id = take(SOURCE, **fields)
    entry = report(operator, payload="another copy")
    assert entry["message_id"] == str(message_id)
    assert (message(message_id).state, message(message_id).reason) == ("NDLV", "listed")
    (change, _) = operator.get(f"messages/{message_id}/history/").json()["results"]
    assert (change["event"], change["from_state"], change["note"]) == ("listed", "TBDL", "it cannot be read")
    assert operator.get("stats/").json()["by_state"]["NDLV"] == 1


def test_a_message_waits_on_while_its_bookmark_is_only_counted(operator: Caller) -> None:
    message_id = take(SOURCE, bookmark="13")
    assert report(operator, fatal=True)["message_id"] == str(message_id)
    assert message(message_id).state == "TBDL"
    report(operator, fatal=True)
    assert message(message_id).state == "NDLV"


def test_a_message_on_another_address_is_left_alone(operator: Caller) -> None:
    message_id = take("bills", bookmark="13")
    assert report(operator)["message_id"] is None
    assert message(message_id).state == "TBDL"


def test_a_message_that_was_delivered_is_linked_and_left(operator: Caller) -> None:
    message_id = take(SOURCE, bookmark="13")
    Message.objects.filter(id=message_id).update(state="DLVD")
    assert report(operator)["message_id"] == str(message_id)
    assert message(message_id).state == "DLVD"


# --- release ---


def test_a_release_starts_the_counts_again(operator: Caller) -> None:
    entry = [report(operator, fatal=True) for _ in range(2)][-1]
    released = operator.post(f"poison-list/{entry['id']}/release/", WHY).json()
    assert (released["is_listed"], released["crashes"], released["released_by"]) == (False, 0, "operator via test")
    assert released["note"] == "repaired"
    assert not report(operator, fatal=True)["is_listed"]
    assert Audit.objects.get(action="poison_entry.released").note == "repaired"


def test_a_count_below_the_limit_can_be_taken_back(operator: Caller) -> None:
    entry = report(operator, fatal=True)
    assert operator.post(f"poison-list/{entry['id']}/release/", WHY).json()["crashes"] == 0


def test_what_is_not_listed_cannot_be_released_again(operator: Caller) -> None:
    entry = report(operator)
    operator.post(f"poison-list/{entry['id']}/release/", WHY)
    answer = operator.post(f"poison-list/{entry['id']}/release/", WHY)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_listed")


@pytest.mark.conformance("AMPS-h", "R7")
def test_a_release_approves_the_messages_that_the_bookmark_stopped(operator: Caller) -> None:
    make_orders_destination()
    entry = report(operator, payload="x")
    later = take("orders.eu", bookmark="13")
    other = take("orders.eu", bookmark="14")
    assert [message(one).state for one in (entry["message_id"], later)] == ["NDLV", "NDLV"]
    operator.post(f"poison-list/{entry['id']}/release/", WHY)
    assert [message(one).state for one in (entry["message_id"], later, other)] == ["TBDL", "TBDL", "TBDL"]
    released = Audit.objects.filter(action="poison_entry.released")
    assert [one.note for one in released] == ["repaired"]


@pytest.mark.conformance("R7")
def test_a_release_hands_back_what_a_consumer_sent_in(operator: Caller) -> None:
    entry = report(operator, payload="x")
    operator.post(f"poison-list/{entry['id']}/release/", WHY)
    assert (message(entry["message_id"]).state, message(entry["message_id"]).reason) == ("DLVD", "handed_back")
    assert not PoisonEntry.objects.get().is_listed


def test_a_release_leaves_what_has_been_given_up(operator: Caller) -> None:
    entry = report(operator, payload="x")
    operator.post(f"messages/{entry['message_id']}/fail/", WHY)
    assert operator.post(f"poison-list/{entry['id']}/release/", WHY).status_code == 200
    assert message(entry["message_id"]).state == "FAIL"


def test_approving_the_message_releases_its_bookmark(operator: Caller) -> None:
    make_orders_destination()
    entry = report(operator, payload="x")
    assert operator.post(f"messages/{entry['message_id']}/approve/", WHY).json()["state"] == "TBDL"
    found = PoisonEntry.objects.get()
    assert (found.is_listed, found.failures, found.released_by) == (False, 0, "operator via test")


def test_a_refused_approval_releases_nothing(operator: Caller) -> None:
    entry = report(operator, payload="x")
    operator.post(f"messages/{entry['message_id']}/fail/", WHY)
    assert operator.post(f"messages/{entry['message_id']}/approve/", WHY).json()["code"] == "transition_not_allowed"
    assert PoisonEntry.objects.get().is_listed


@pytest.mark.conformance("R7")
def test_approving_what_a_consumer_sent_in_hands_it_back_and_reporting_it_again_is_the_same_message(
    operator: Caller,
) -> None:
    entry = report(operator, payload="x")
    message = entry["message_id"]
    assert operator.post(f"messages/{message}/approve/", WHY).status_code == 200
    shown = operator.get(f"messages/{message}/").json()
    assert (shown["state"], shown["reason"]) == ("DLVD", "handed_back")
    assert not PoisonEntry.objects.get().is_listed
    assert report(operator, payload="x")["message_id"] == message
    shown = operator.get(f"messages/{message}/").json()
    assert (shown["state"], shown["reason"]) == ("NDLV", "listed")
    assert Message.objects.count() == 1


def test_giving_the_message_up_releases_nothing(operator: Caller) -> None:
    entry = report(operator, payload="x")
    operator.post(f"messages/{entry['message_id']}/fail/", WHY)
    assert PoisonEntry.objects.get().is_listed


# --- the list ---


def test_the_list_is_filtered_by_source_and_by_what_is_listed(operator: Caller) -> None:
    report(operator, "1")
    report(operator, "2", fatal=True)
    report(operator, "3", source="bills")

    def bookmarks(query: str) -> list[str]:
        return [entry["bookmark"] for entry in operator.get(f"poison-list/{query}").json()["results"]]

    assert bookmarks("") == ["3", "2", "1"]
    assert bookmarks(f"?source={SOURCE}") == ["2", "1"]
    assert bookmarks("?listed=true") == ["3", "1"]
    assert bookmarks(f"?source={SOURCE}&listed=false") == ["2"]


def test_a_page_leads_to_the_next(operator: Caller) -> None:
    for number in range(5):
        report(operator, str(number))
    first = operator.get("poison-list/?limit=3").json()
    second = operator.get(first["next"].partition("/api/v1/")[2]).json()
    assert [entry["bookmark"] for entry in first["results"] + second["results"]] == ["4", "3", "2", "1", "0"]


def test_an_outsider_neither_reports_nor_sees_nor_releases(operator: Caller, outsider: Caller) -> None:
    entry = report(operator)
    assert outsider.post("poison-list/", told()).status_code == 404
    assert outsider.get("poison-list/").json()["results"] == []
    assert outsider.get(f"poison-list/events/?source={SOURCE}").status_code == 404
    assert outsider.post(f"poison-list/{entry['id']}/release/", WHY).status_code == 404
    assert PoisonEntry.objects.get().is_listed


# --- events and heartbeats ---


def test_without_an_event_loop_the_stream_is_the_list_and_its_end(operator: Caller) -> None:
    report(operator, "13", why="line\nbreak")
    report(operator, "14", fatal=True)
    answer = operator.get(f"poison-list/events/?source={SOURCE}")
    events = b"".join(answer).decode().split("\n\n")
    assert answer["Content-Type"] == "text/event-stream"
    assert answer["X-Accel-Buffering"] == "no"
    assert events[0].startswith("event: listed\nid: ")
    assert '"why":"line\\nbreak"' in events[0]
    assert events[1:] == ["event: loaded\ndata: {}", ""]


def test_a_stream_is_of_one_source(operator: Caller) -> None:
    assert operator.get("poison-list/events/").json()["code"] == "invalid_parameter"


def test_a_heartbeat_says_who_lives_and_what_it_handles(operator: Caller) -> None:
    beat = {"source": SOURCE, "version": "2.7", "host": "shop-1", "pid": 7, "bookmark": "13"}
    assert operator.post("nodes/billing-1/heartbeat/", beat).status_code == 204
    row = Consumer.objects.get()
    assert (row.name, row.version, row.pid, row.bookmark, row.ended_at) == ("billing-1", "2.7", 7, "13", None)
    operator.post("nodes/billing-1/heartbeat/", beat | {"bookmark": None, "ended": True})
    row.refresh_from_db()
    assert row.bookmark is None
    assert row.ended_at is not None


def test_another_process_under_the_same_name_is_a_new_start(operator: Caller) -> None:
    operator.post("nodes/billing-1/heartbeat/", {"source": SOURCE, "pid": 7})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE consumer SET started_at = now() - interval '1 day'")
    operator.post("nodes/billing-1/heartbeat/", {"source": SOURCE, "pid": 7})
    before = Consumer.objects.get().started_at
    operator.post("nodes/billing-1/heartbeat/", {"source": SOURCE, "pid": 8})
    assert Consumer.objects.get().started_at > before


def test_a_name_that_a_consumer_out_of_scope_has_is_taken(operator: Caller, outsider: Caller) -> None:
    operator.post("nodes/billing-1/heartbeat/", {"source": SOURCE})
    answer = outsider.post("nodes/billing-1/heartbeat/", {"source": "elsewhere.x"})
    assert (answer.status_code, answer.json()["code"]) == (409, "consumer_name_taken")
