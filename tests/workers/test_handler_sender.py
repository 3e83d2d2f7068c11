"""What a handler gets, what it may answer, and how its messages are handed to it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from poisonadmin.delivery.domain.journal import HeaderField, Journal
from poisonadmin.delivery.domain.lease import HeldFor
from poisonadmin.messages.domain.attempt import AttemptRecord
from tests.whole_system.installation import until
from tests.workers.nodes import RecordingNode
from tests.workers.sandboxes import HANDLERS, handle
from workers.delivery.deliver import deliver_all
from workers.delivery.deliveries import Delivery
from workers.delivery.handler.destination import HandlerDestination
from workers.delivery.handler.journals import attempts_left_behind, node_ids, remove_journals


def the_row(deed: str, journals: Path) -> AttemptRecord:
    """Return the only row of a run with one message."""
    return handle([deed], journals).only


def test_a_return_is_a_delivery_and_an_exception_a_failure_with_its_cause(tmp_path: Path) -> None:
    handled = handle(["ok", "reject"], tmp_path)
    assert handled.outcomes() == {1: "delivered", 2: "failed"}
    failure = next(row for row in handled.rows if row.outcome == "failed")
    assert (failure.error_class, failure.cause_class) == ("deadly.OrderRejected", "KeyError")
    assert failure.error_message == "order 17 has no total"
    assert "in reject" in (failure.stack or "")
    assert failure.title == "KeyError in deadly.py:reject"


@pytest.mark.parametrize("deed", ["recurse", "unprintable"])
def test_an_odd_exception_is_a_failure_too(deed: str, tmp_path: Path) -> None:
    assert the_row(deed, tmp_path).outcome == "failed"


@pytest.mark.parametrize(
    ("deed", "outcome", "words", "move_to"),
    [
        ("discard", "discarded", "not for us", None),
        ("move orders.other", "moved", "wrong shop", "orders.other"),
        ("rollback", "rolled_back", "later", None),
        ("end_conversation", "conversation_ended", "cannot go on", None),
    ],
)
def test_a_handler_may_answer_otherwise(
    deed: str, outcome: str, words: str, move_to: str | None, tmp_path: Path
) -> None:
    row = the_row(deed, tmp_path)
    assert (row.outcome, row.error_message, row.move_to) == (outcome, words, move_to)


@pytest.mark.parametrize("address", ["..", "orders"])
def test_a_move_to_nowhere_is_a_failure(address: str, tmp_path: Path) -> None:
    row = the_row(f"move {address}", tmp_path)
    assert (row.outcome, row.error_class) == ("failed", "InvalidAnswer")


@pytest.mark.parametrize(
    ("callable_name", "words"),
    [
        ("missing:handle", "No module named 'missing'"),
        ("deadly:missing", "no attribute 'missing'"),
        ("deadly:DEEDS", "is not a function but dict"),
        ("psycopg:connect", "No module named 'psycopg'"),
        ("dies_at_import:handle", "while its module was imported"),
    ],
)
def test_a_handler_that_cannot_be_loaded_fails_its_messages_and_says_why(
    callable_name: str, words: str, tmp_path: Path
) -> None:
    handled = handle(["ok", "ok"], tmp_path, callable_name=callable_name)
    assert handled.outcomes() == {1: "failed", 2: "failed"}
    assert {row.error_class for row in handled.rows} == {"HandlerNotLoaded"}
    assert words in (handled.rows[0].error_message or "")


def test_an_asynchronous_handler_is_told_so(tmp_path: Path) -> None:
    row = handle(["ok"], tmp_path, callable_name="asynchronous:handle").only
    assert (row.outcome, row.error_class) == ("failed", "TypeError")


def test_candidates_run_one_after_the_other_each_marked_and_in_a_sandbox_of_its_own(tmp_path: Path) -> None:
    handled = handle(["pid", "pid", "kill SIGKILL", "pid"], tmp_path, is_isolation=True)
    assert handled.outcomes() == {1: "delivered", 2: "delivered", 3: "crashed", 4: "delivered"}
    assert handled.marked == [1, 2, 3, 4]
    pids = [row.output for row in handled.rows if row.outcome == "delivered"]
    assert len(set(pids)) == 3


def test_a_crash_accuses_the_message_in_turn_and_nothing_beside_it(tmp_path: Path) -> None:
    handled = handle(["sleep 1", "kill SIGKILL", *["ok"] * 5], tmp_path, concurrency=2)
    assert handled.outcomes() == {2: "crashed"} | dict.fromkeys((1, *range(3, 8)), "delivered")


def test_a_message_is_noted_as_begun_while_it_is_handled_and_what_waits_behind_it_is_not(tmp_path: Path) -> None:
    node = RecordingNode(journals=tmp_path)
    handler = HandlerDestination(1, "h", "deadly:handle", roots=(str(HANDLERS),))
    deliveries = [Delivery(n, 1, 1, "orders", f"m{n}", "text/plain", payload=b"sleep 1") for n in (1, 2, 3)]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lambda: asyncio.run(deliver_all(deliveries, {1: handler}, node)))
        until(lambda: sorted(node.begun) == [1, 2])
        assert node.rows == [], "nothing is answered yet"
        running.result()
    assert sorted(node.begun) == [1, 2, 3]


def test_what_is_not_begun_when_the_node_stops_is_left_alone(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.4, stop.set).start()
    handled = handle(["sleep 0.7", *["ok"] * 50], tmp_path, concurrency=1, stop=stop)
    assert handled.outcomes() == {1: "delivered"}
    assert handled.summary is not None
    assert handled.summary.not_begun == 50


def test_a_slow_import_costs_nobody_his_turn(tmp_path: Path) -> None:
    handled = handle(["ok"] * 20, tmp_path, callable_name="slow_to_load:handle", seconds=0.2)
    assert set(handled.outcomes().values()) == {"delivered"}
    assert len(handled.rows) == 20


def test_slow_messages_are_shared_between_sandboxes(tmp_path: Path) -> None:
    handled = handle(["sleep 0.3"] * 8, tmp_path, concurrency=4)
    spans = sorted((row.started_at, row.finished_at) for row in handled.rows if row.started_at is not None)
    assert len(spans) == 8
    assert any(later[0] < earlier[1] for earlier, later in pairwise(spans))


def test_the_pages_of_a_node_tell_what_it_had_done_and_begun(tmp_path: Path) -> None:
    handled = handle(["ok", "reject", "kill SIGKILL", "discard"], tmp_path, concurrency=1)
    assert node_ids(tmp_path) == {7}
    rows = attempts_left_behind(
        tmp_path, node_id=7, name="n", claim_id=1, shard=0, destinations=dict.fromkeys(range(1, 5), HeldFor(1, "#"))
    )
    assert rows is not None
    told = {row.message_id: row.outcome for row in rows}
    assert told[3] == "node_lost", "nothing but its turn is in the page: the crash was its parent's knowledge"
    assert told.items() <= (handled.outcomes() | {3: "node_lost"}).items()
    remove_journals(7, tmp_path)
    assert node_ids(tmp_path) == set()
    assert attempts_left_behind(tmp_path / "gone", node_id=7, name="n", claim_id=1, shard=0, destinations={}) is None


@pytest.mark.parametrize("how", ["cut", "all"])
def test_a_damaged_journal_of_a_lost_node_does_not_say_that_nothing_had_begun(how: str, tmp_path: Path) -> None:
    handle(["ok", f"wreck {how}"], tmp_path, concurrency=1)
    held = dict.fromkeys((1, 2), HeldFor(1, "#"))
    assert attempts_left_behind(tmp_path, node_id=7, name="n", claim_id=1, shard=0, destinations=held) is None


def test_a_handler_moves_messages_within_its_destination_s_owner_pattern_only(tmp_path: Path) -> None:
    deeds = ["move orders.late", "move orders", "move billing.late"]
    handled = handle(deeds, tmp_path, owner="orders.#", callable_name="deadly:handle")
    told = {row.message_id: (row.outcome, row.move_to, row.error_class) for row in handled.rows}
    assert told[1] == ("moved", "orders.late", None)
    assert told[3] == ("failed", None, "InvalidAnswer")
    assert "billing.late" in str(next(row.error_message for row in handled.rows if row.message_id == 3))

    # The same is read of the journal of a node that was lost before it wrote them; what it did not hold moves nowhere.
    for path in tmp_path.glob("*.journal"):
        data = bytearray(path.read_bytes())
        Journal(data).set(HeaderField.READ, 0)
        path.write_bytes(data)
    held = {1: HeldFor(1, "orders.#"), 3: HeldFor(1, "orders.#")}
    rows = attempts_left_behind(tmp_path, node_id=7, name="n", claim_id=1, shard=0, destinations=held)
    assert {row.message_id: row.outcome for row in rows or ()} == {1: "moved", 2: "failed", 3: "failed"}


def test_two_handlers_in_one_run_have_sandboxes_of_their_own(tmp_path: Path) -> None:
    handlers = {
        number: HandlerDestination(number, f"h{number}", "deadly:handle", roots=(str(HANDLERS),)) for number in (1, 2)
    }
    deliveries = [
        Delivery(n, 1, 1 + n % 2, "orders", f"m{n}", "text/plain", headers={"n": str(n)}, payload=b"ok")
        for n in range(1, 41)
    ]
    node = RecordingNode(journals=tmp_path, start_deadline=lambda: float("inf"), lease_deadline=lambda: float("inf"))
    asyncio.run(deliver_all(deliveries, handlers, node))
    assert sorted((row.message_id, row.outcome) for row in node.rows) == [(n, "delivered") for n in range(1, 41)]
