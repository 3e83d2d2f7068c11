"""Every way for a handler to die is blamed on the message in turn, once; what only looks like dying is not."""

from pathlib import Path

import psutil
import pytest

from poisonadmin.delivery.domain.journal import OUTPUT_BYTES
from tests.workers.sandboxes import handle

DEATHS = {
    "kill SIGKILL": ("HandlerKilled", -9),
    "kill SIGTERM": ("HandlerKilled", -15),
    "abort": ("HandlerAborted", -6),
    "segfault": ("HandlerSegfault", -11),
    "overflow": ("HandlerSegfault", -11),
    "_exit 0": ("HandlerExited", 0),
    "_exit 3": ("HandlerExited", 3),
    "exit 0": ("HandlerExited", 0),
    "exit 4": ("HandlerExited", 4),
    "interrupt": ("HandlerExited", None),
    "allocate 500": ("HandlerOutOfMemory", None),
    "spin": ("HandlerCpuLimit", -9),
    "deaf": ("HandlerTimeLimit", -9),
    "fork_and_die": ("HandlerKilled", -9),
}
SURVIVALS = ("close_pipes", "swap_pipes", "fork_and_return", "fork_and_exit", "grandchild", "native_print")


@pytest.mark.parametrize("deed", DEATHS)
def test_a_death_is_a_crash_of_the_message_in_turn(deed: str, tmp_path: Path) -> None:
    # On a busy machine a second of processor time may take many.
    limits = {"timeout_ms": 60_000} if deed == "spin" else {}
    handled = handle(["ok", deed, "ok"], tmp_path, concurrency=1, **limits)
    assert handled.outcomes() == {1: "delivered", 2: "crashed", 3: "delivered"}
    crash = next(row for row in handled.rows if row.message_id == 2)
    assert (crash.error_class, crash.exit_status) == DEATHS[deed]
    assert crash.fingerprint
    assert crash.error_message
    assert crash.started_at is not None
    assert crash.started_at <= crash.finished_at


WRECKS = ("cut", "shorten", "memory", "all", "magic", "turn", "next", "written")
# Another message's number in its place is seen when the handler is done.
DAMAGES = [(how, then) for how in WRECKS for then in ("ok", "reject", "sleep 60", "_exit 3")]
DAMAGES += [("message", then) for then in ("ok", "reject", "_exit 3")]


@pytest.mark.parametrize(("how", "then"), DAMAGES)
def test_a_handler_that_changes_its_own_journal_has_crashed(how: str, then: str, tmp_path: Path) -> None:
    # Its own limit of time must not be what ends it.
    handled = handle(["ok", "ok", f"wreck {how} {then}", "ok", "ok"], tmp_path, concurrency=1, timeout_ms=30_000)
    assert handled.outcomes() == {1: "delivered", 2: "delivered", 3: "crashed", 4: "delivered", 5: "delivered"}
    crash = next(row for row in handled.rows if row.message_id == 3)
    assert crash.error_class == "HandlerJournalDamaged"


def test_lost_results_are_no_crash_of_their_messages(tmp_path: Path) -> None:
    many = ["ok"] * 300
    handled = handle([*many, "wreck all", *many], tmp_path, concurrency=1)
    assert [number for number, outcome in handled.outcomes().items() if outcome != "delivered"] == [301]


@pytest.mark.parametrize("deed", SURVIVALS)
def test_what_only_looks_like_dying_is_a_delivery(deed: str, tmp_path: Path) -> None:
    handled = handle(["ok", deed, "ok"], tmp_path, concurrency=1)
    assert handled.outcomes() == {1: "delivered", 2: "delivered", 3: "delivered"}


def test_who_is_killed_by_what_another_left_behind_is_cleared_alone(tmp_path: Path) -> None:
    handled = handle(["late", "doomed", "ok"], tmp_path, concurrency=1)
    assert handled.outcomes() == {1: "delivered", 2: "crashed", 3: "delivered"}
    alone = handle(["doomed"], tmp_path / "alone", is_isolation=True)
    assert alone.outcomes() == {1: "delivered"}


def test_the_last_8_kb_printed_stand_in_the_failure_log(tmp_path: Path) -> None:
    printed = handle(["shout 20000"], tmp_path).only.output or b""
    assert len(printed) == OUTPUT_BYTES
    assert printed.endswith(b"xthe end\n")
    crashed = handle(["kill SIGKILL"], tmp_path / "crash").only.output or b""
    assert crashed == b"about to send SIGKILL\n"


def test_a_native_crash_names_the_line_that_it_came_from(tmp_path: Path) -> None:
    crash = handle(["segfault"], tmp_path).only
    assert b"Segmentation fault" in (crash.output or b"")
    assert crash.title == "HandlerSegfault in deadly.py:<lambda>"


def test_no_process_is_left_but_what_has_fled_on_purpose(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    handle(["ok", "fork_and_die", "fork_and_exit", "deaf", "ok"], tmp_path, timeout_ms=300)
    left = set(psutil.Process().children(recursive=True)) - before
    # The tests' database is a child, too, and begins processes whenever it likes.
    assert {one for one in left if one.is_running() and one.name() != "postgres"} == set()


def test_each_of_many_is_handled_once_and_each_killer_is_blamed(tmp_path: Path) -> None:
    deeds = ["ok"] * 600
    for index, deed in enumerate(DEATHS):
        deeds[index * 40 + 5] = deed
    handled = handle(deeds, tmp_path, concurrency=3, timeout_ms=1000)
    expected = {n: "crashed" if deed in DEATHS else "delivered" for n, deed in enumerate(deeds, 1)}
    assert handled.outcomes() == expected
    assert sorted(handled.begun) == sorted(expected)
