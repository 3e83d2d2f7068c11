"""What the API says of crashes: nodes that were lost, and how each attempt died."""

import pytest

from tests import crashes
from tests.fixtures.api import Caller, take

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_destination")]


def test_a_lost_node_names_what_it_was_delivering(admin: Caller) -> None:
    begun, waits = take(), take()
    lost = crashes.take([begun, waits])
    crashes.lose(lost, begun)
    alive = crashes.take([take()])
    found = admin.get("nodes/?lost=true").json()["results"]
    assert [row["id"] for row in found] == [str(lost.node_id)]
    assert (found[0]["end"], found[0]["lost"], found[0]["lost_message_ids"]) == ("lost", 1, [str(begun)])
    assert found[0]["delivering"] == 0
    assert [row["id"] for row in admin.get("nodes/?lost=false").json()["results"]] == [str(alive.node_id)]
    assert [row["id"] for row in admin.get("nodes/?alive=true").json()["results"]] == [str(alive.node_id)]


def test_an_attempt_that_crashed_says_by_which_signal_and_what_it_printed(admin: Caller) -> None:
    message_id = take()
    crashes.blacklist(message_id, output=b"last \xff words")
    found = admin.get(f"messages/{message_id}/attempts/").json()["results"]
    assert [(row["outcome"], row["exit_status"], row["signal"]) for row in found] == [("crashed", -11, "SIGSEGV")] * 2
    assert {row["output_text"] for row in found} == {"last \ufffd words"}
    assert [row["is_alone"] for row in found] == [True, False]
    assert [row["node_end"] for row in found] == ["clean", "clean"]


def test_messages_are_filtered_by_candidate(admin: Caller) -> None:
    suspect, other = take(), take()
    together = crashes.take([suspect, other])
    crashes.crash(together, suspect)
    crashes.deliver(together, other)
    assert [row["id"] for row in admin.get("messages/?candidate=true").json()["results"]] == [str(suspect)]
    assert [row["id"] for row in admin.get("messages/?candidate=false").json()["results"]] == [str(other)]
