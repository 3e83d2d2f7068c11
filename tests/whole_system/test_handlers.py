"""Whatever crashes is isolated, exactly, and everything else is delivered: handlers, through the whole system."""

import pytest

from tests.whole_system.handler_destination import HandlerDestination
from tests.whole_system.installation import Installation, until

KILLERS = (
    "kill SIGKILL", "kill SIGTERM", "segfault", "abort", "_exit 0", "_exit 3", "exit 4", "overflow", "allocate 400",
    "spin", "deaf", "fork_and_die",
)  # fmt: skip
ODDITIES = ("close_pipes", "swap_pipes", "fork_and_return", "fork_and_exit", "grandchild", "close_pipes")


def mixed(count: int, killers: int) -> list[str]:
    """Return what `count` messages are to do: the killers evenly among them, of every kind, and the oddities."""
    deeds = ["ok"] * count
    for index in range(killers):
        deeds[index * (count // killers) + 7] = KILLERS[index % len(KILLERS)]
    for index, oddity in enumerate(ODDITIES):
        deeds[index * (count // len(ODDITIES)) + 3] = oddity
    return deeds


@pytest.mark.long
def test_exactly_the_killers_are_blacklisted(installation: Installation) -> None:
    destination = HandlerDestination.create(installation, "killers")
    deeds = mixed(2000, 24)
    destination.send_all(deeds)
    destination.until_quiet(180)

    killers = [place for place, deed in enumerate(deeds) if deed in KILLERS]
    assert destination.places("state = 'NDLV' AND reason = 'blacklisted' AND crash_count = 2") == killers
    assert destination.places("state = 'DLVD' AND NOT candidate") == sorted(set(range(2000)) - set(killers))
    ids = dict(
        installation.rows(
            "SELECT envelope.message_id::int, envelope.id FROM envelope JOIN address ON address.id = intake_address_id"
            " WHERE address.name = %s",
            [destination.address],
        )
    )
    handled = destination.seen()
    wrong = {
        deeds[place]: handled[ids[place]] for place in range(2000) if handled[ids[place]] != 1 + (place in killers)
    }
    assert wrong == {}
    jobs = installation.rows("SELECT count(*) FROM run WHERE kind = 'redeliver' AND state = 'succeeded'")
    assert jobs[0][0] >= 1


def test_a_crash_is_written_down_with_what_it_died_of(installation: Installation) -> None:
    destination = HandlerDestination.create(installation, "crashes")
    poison = destination.send("kill SIGKILL")
    message = destination.until(poison, "NDLV")
    assert (message["reason"], message["candidate"], message["failure_count"]) == ("blacklisted", True, 0)
    assert destination.events(poison) == ["enqueued", "claimed", "crashed", "claimed", "crashed"]
    crashes = destination.attempts(poison)
    assert [(one["outcome"], one["error_class"]) for one in crashes] == [("crashed", "HandlerKilled")] * 2
    assert "about to send SIGKILL" in str(crashes[0])


@pytest.mark.parametrize(
    ("deed", "state", "reason", "last_event"),
    [
        ("ok", "DLVD", None, "delivered"),
        ("reject", "NDLV", "attempts_exhausted", "failed"),
        ("discard", "FAIL", "discarded_by_policy", "discarded"),
        ("end_conversation", "FAIL", "conversation_ended", "conversation_ended"),
    ],
)
def test_what_a_handler_answers_is_done(
    installation: Installation, deed: str, state: str, reason: str | None, last_event: str
) -> None:
    name = f"answers-{deed}"
    destination = HandlerDestination.create(installation, name)
    message_id = destination.send(deed)
    message = destination.until(message_id, state)
    assert message["reason"] == reason
    assert destination.events(message_id)[-1] == last_event


def test_a_handler_moves_a_message_to_another_address(installation: Installation) -> None:
    destination = HandlerDestination.create(installation, "mover")
    message_id = destination.send("move elsewhere.parked")
    until(lambda: destination.message(message_id)["address"] == "elsewhere.parked", 30)
    assert destination.message(message_id)["state"] == "TBDL"
    assert destination.events(message_id)[-1] == "moved"
