"""Payloads that a policy keeps no longer are removed, everywhere; without its payload no message is delivered."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils import timezone

from poisonadmin.archive.commands import payloads, rewriting
from poisonadmin.archive.commands.holds import hold, lift
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.archive.queries import ArchiveRunResult, get_run
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.decisions.commands import decisions as deciding
from poisonadmin.decisions.commands.decision_statements import DECISIONS
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import DELIVERING, OperationAction
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.desk.queries.detail import get_message, payload, version_payload
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.messages.commands.transitions import move
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.messages.domain.states import Event, State
from poisonadmin.messages.queries.counts import wrong_counters
from poisonadmin.messages.queries.payload_removals import PayloadRemoved
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.archive import ArchiveFile
from tests.archive.fixtures import age, archive_with, begun, fail, in_process, place, put  # noqa: F401  (fixtures)
from tests.archive.in_process import InProcessStore
from tests.archive.test_restoring import put_archived
from tests.fixtures.api import Caller, take
from tests.fixtures.decisions import restore
from tests.fixtures.delivery import make_destination
from tests.fixtures.pages import html_of
from tests.messages.overlap import overlap

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place", "in_process")]
REMOVED = "SELECT message_id FROM removed_payload ORDER BY 1"
DELIVER: list[tuple[OperationAction, dict[str, Any]]] = [
    (OperationAction.APPROVE, {}),
    (OperationAction.REDIRECT, {"params": {"address": "orders.us"}}),
    (OperationAction.PATCH, {"params": {"payload": "another"}}),
]


@pytest.fixture(autouse=True)
def kept_30_days(transactional_db: None) -> None:
    """Have `orders.#` deliver, and keep payloads for 30 days."""
    make_destination(keep_payload_days=30)


def run(archive: str, **asked: Any) -> ArchiveRunResult:
    """Carry a run out, in this process, and return its result."""
    made = request_archive_run(principal=SYSTEM, **asked)
    archive_with(InProcessStore(archive))
    ended = get_run(made.id, principal=SYSTEM)
    assert (ended.state, ended.error) == ("succeeded", None)
    return ended.result


def bodies(ids: list[int]) -> list[bytes]:
    """Return the payloads that the database has of messages."""
    return [bytes(one) for one in fetch_values("SELECT payload FROM body WHERE id = ANY(%s) ORDER BY id", [ids])]


def texts(archive: str) -> str:
    """Return all that the files of the archive hold of messages, as text."""
    tables = [pq.read_table(path) for path in Path(archive).rglob("*.parquet")]
    return "\n".join(str(one.to_pylist()) for one in tables)


def without_payload(archive: str) -> int:
    """Return a message in NDLV whose payload was removed while it was final."""
    (message_id,) = put(1)
    fail([message_id], days_ago=40)
    run(archive)
    assert restore([message_id], principal=SYSTEM, reason="look again").changed
    return message_id


def test_what_is_final_for_so_long_loses_its_payload_and_nothing_else(place: str) -> None:  # noqa: F811
    old, young, waiting = put(2), put(1, prefix="y"), put(1, prefix="w")
    elsewhere = put(1, "invoices.eu", "e")
    fail([*old, *elsewhere], days_ago=40)
    fail(young, days_ago=20)
    before = get_message(old[0], principal=SYSTEM)
    assert run(place).payloads == 2
    assert fetch_values(REMOVED) == old
    assert bodies(old) == [b"", b""]
    assert all(bodies([*young, *waiting, *elsewhere]))
    after = get_message(old[0], principal=SYSTEM)
    assert (after.payload_kept_days, after.payload_policy, after.archived) == (30, "orders.#", False)
    assert after.payload_removed_at is not None
    for name in ("message_id", "headers", "state", "reason", "payload_bytes", "state_at", "received_at"):
        assert getattr(after, name) == getattr(before, name), name
    with pytest.raises(PayloadRemoved, match=r"kept 30 days by policy orders\.#"):
        payload(old[0], principal=SYSTEM)
    assert run(place).payloads == 0
    assert wrong_counters() == []


def test_files_get_no_payload_that_is_due(place: str) -> None:  # noqa: F811
    message_id = put_archived(None)  # type: ignore[arg-type]
    run(place)
    assert get_message(message_id, principal=SYSTEM).archived
    assert "secret-0" not in texts(place)
    assert b"\x00\xff before".hex() not in texts(place)
    assert fetch_values(REMOVED) == [message_id]


def test_what_is_archived_loses_its_payload_in_its_files(place: str) -> None:  # noqa: F811
    make_destination(keep_payload_days=None)
    message_id = put_archived(None)  # type: ignore[arg-type]
    kept = put(1, "invoices.eu", "k")
    fail(kept)
    run(place)
    assert "secret-0" in texts(place)
    assert b"\x00\xff before".hex() in texts(place)
    make_destination(keep_payload_days=30)
    before = get_message(message_id, principal=SYSTEM)
    assert run(place).payloads == 1
    found = texts(place)
    assert found.count("secret-0") == 1  # that of the other address
    assert b"\x00\xff before".hex() not in found
    after = get_message(message_id, principal=SYSTEM)
    assert (after.payload_kept_days, after.payload_policy) == (30, "orders.#")
    for name in ("message_id", "headers", "tags", "payload_bytes", "business_keys"):
        assert getattr(after, name) == getattr(before, name), name
    for read in (
        lambda: payload(message_id, principal=SYSTEM),
        lambda: version_payload(message_id, 1, principal=SYSTEM),
    ):
        with pytest.raises(PayloadRemoved):
            read()
    there = {str(path.relative_to(place)) for path in Path(place).rglob("*.parquet")}
    assert there == set(ArchiveFile.objects.filter(is_current=True).values_list("path", flat=True))
    for manifest in Path(place).rglob("manifest.json"):
        assert {file["path"] for file in json.loads(manifest.read_text())["files"]} <= there


def test_the_files_that_a_restored_message_came_from_lose_its_payload_too(place: str) -> None:  # noqa: F811
    make_destination(keep_payload_days=None)
    first, second = put(2)
    fail([first, second])
    run(place)
    restore_from_archive(first, reason="wanted", principal=SYSTEM)
    fail([first])
    make_destination(keep_payload_days=30)
    assert "secret-0" in texts(place)
    run(place)
    assert fetch_values(REMOVED) == [first, second]
    assert "secret" not in texts(place)
    assert fetch_values("SELECT message_id FROM archive_left_out") == []


def test_a_message_that_is_restored_without_its_payload_is_not_delivered(place: str) -> None:  # noqa: F811
    (message_id,) = put(1)
    fail([message_id])
    run(place)
    restore_from_archive(message_id, reason="look", principal=SYSTEM)
    assert bodies([message_id]) == [b""]
    assert get_message(message_id, principal=SYSTEM).payload_removed_at is not None
    assert deciding.decide(OperationAction.APPROVE, [message_id], principal=SYSTEM, reason="r").refused == {
        message_id: "payload_removed"
    }


@pytest.mark.parametrize(("action", "more"), DELIVER, ids=[action for action, _ in DELIVER])
def test_no_decision_delivers_what_has_no_payload(place: str, action: OperationAction, more: dict[str, Any]) -> None:  # noqa: F811
    message_id = without_payload(place)
    with pytest.raises(PayloadRemoved, match="it cannot be delivered any more"):
        decide_on([message_id], action, principal=SYSTEM, reason="r", is_one=True, **more)
    assert get_message(message_id, principal=SYSTEM).state == "NDLV"
    assert bodies([message_id]) == [b""]
    assert decide_on([message_id], OperationAction.FAIL, principal=SYSTEM, reason="r").changed


@pytest.mark.parametrize("least_quick", [1, 101], ids=["quick", "locked"])
def test_an_operation_leaves_it_alone_and_says_why(
    place: str,  # noqa: F811
    least_quick: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deciding, "LEAST_QUICK", least_quick)
    empty = without_payload(place)
    whole = put(1, prefix="w")
    fail(whole, days_ago=1)
    restore(whole, principal=SYSTEM, reason="again")
    selection = freeze(ids=[empty, *whole], principal=SYSTEM)
    foreseen = preview(get_selection(selection, principal=SYSTEM), OperationAction.APPROVE, principal=SYSTEM)
    assert [(one.code, one.address, one.count) for one in foreseen.refused] == [("payload_removed", "orders.eu", 1)]
    operation = begin(selection, OperationAction.APPROVE, reason="all of them", principal=SYSTEM)
    found = get_operation(operation, principal=SYSTEM)
    assert [(one.code, one.count) for one in found.skipped] == [("payload_removed", 1)]
    assert found.ledger.total == 2
    assert fetch_rows("SELECT id, state FROM message ORDER BY id") == [(empty, "NDLV"), (whole[0], "TBDL")]
    assert wrong_counters() == []


@pytest.mark.parametrize("action", sorted(DELIVERING))
def test_whatever_delivers_looks_for_removed_payloads_in_its_one_statement(action: OperationAction) -> None:
    decision = DECISIONS[action]
    assert "FROM removed_payload" in decision.statement
    assert "FROM removed_payload" in decision.read


def test_the_builder_refuses_a_statement_that_does_not_look_for_removed_payloads() -> None:
    with pytest.raises(ValueError, match="payload was removed"):
        move(
            State.NDLV,
            Event.APPROVED,
            State.TBDL,
            chosen="SELECT id FROM message WHERE state = 'NDLV'",
            sets={"due_at": "now()"},
        )


def test_who_restores_while_payloads_are_removed_waits_and_is_told(place: str) -> None:  # noqa: F811
    (message_id,) = put(1)
    fail([message_id], days_ago=40)
    turn = begun()

    def restored_and_approved() -> dict[int, str]:
        assert restore([message_id], principal=SYSTEM, reason="again").changed
        return deciding.decide(OperationAction.APPROVE, [message_id], principal=SYSTEM, reason="r").refused

    found = overlap(lambda: payloads.remove_live(turn, IdRange(0, message_id)), restored_and_approved)
    assert found.waited
    assert found.second == {message_id: "payload_removed"}


def test_what_is_restored_meanwhile_keeps_its_payload() -> None:
    (message_id,) = put(1)
    fail([message_id], days_ago=40)
    turn = begun()
    found = overlap(
        lambda: restore([message_id], principal=SYSTEM, reason="again"),
        lambda: payloads.remove_live(turn, IdRange(0, message_id)),
    )
    assert found.waited
    assert bodies([message_id]) == ["é secret-0".encode()]
    assert fetch_values(REMOVED) == []


def test_a_hold_that_is_made_meanwhile_keeps_payloads() -> None:
    (message_id,) = put(1)
    fail([message_id], days_ago=40)
    turn = begun()
    found = overlap(
        lambda: hold({"address": "orders.#"}, reason="lawsuit", principal=SYSTEM),
        lambda: payloads.remove_live(turn, IdRange(0, message_id)),
    )
    assert found.waited
    assert fetch_values(REMOVED) == []


@pytest.mark.parametrize("days_ago", [40, 500], ids=["live", "archived"])
def test_what_a_hold_names_keeps_its_payload_until_it_is_lifted(place: str, days_ago: int) -> None:  # noqa: F811
    make_destination(keep_payload_days=None)
    ids = put(1)
    fail(ids, days_ago=days_ago)
    run(place)
    make_destination(keep_payload_days=30)
    held = hold({"address": "orders.#"}, reason="lawsuit", principal=SYSTEM)
    assert run(place).payloads == 0
    assert b"".join(payload(ids[0], principal=SYSTEM).slices).decode() == "é secret-0"
    lift(held.id, reason="settled", principal=SYSTEM)
    assert run(place).payloads == 1


@pytest.mark.parametrize("what", ["held", "restored"])
def test_what_changes_while_its_file_is_written_anew_keeps_its_payload(
    place: str,  # noqa: F811
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_destination(keep_payload_days=None)
    ids = put(2)
    fail(ids)
    run(place)
    make_destination(keep_payload_days=30)
    real = rewriting.written_anew

    def changed_behind(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(rewriting, "written_anew", real)
        written = real(*given, **more)
        if what == "held":
            hold({"message_id": ["m-0"]}, reason="lawsuit", principal=SYSTEM)
        else:
            restore_from_archive(ids[0], reason="look", principal=SYSTEM)
        return written

    monkeypatch.setattr(rewriting, "written_anew", changed_behind)
    assert run(place).payloads == 1
    assert fetch_values(REMOVED) == [ids[1]]
    assert b"".join(payload(ids[0], principal=SYSTEM).slices).decode() == "é secret-0"
    there = {str(path.relative_to(place)) for path in Path(place).rglob("*.parquet")}
    assert there == set(ArchiveFile.objects.values_list("path", flat=True))


def test_a_dry_run_counts_payloads_live_and_archived(place: str) -> None:  # noqa: F811
    make_destination(keep_payload_days=None)
    archived, live = put(2), put(3, prefix="l")
    fail(archived)
    run(place)
    fail(live, days_ago=40)
    make_destination(keep_payload_days=30)
    assert run(place, is_dry_run=True) == ArchiveRunResult(messages=0, payloads=5, payloads_at={"orders.eu": 5})
    hold({"message_id": ["l-0", "m-0"]}, reason="lawsuit", principal=SYSTEM)
    assert run(place, is_dry_run=True).payloads_at == {"orders.eu": 3}
    earlier = run(place, is_dry_run=True, as_of=timezone.now() - timedelta(days=20))
    assert earlier.payloads_at == {"orders.eu": 1}
    assert fetch_values(REMOVED) == []


def test_a_repetition_of_what_has_no_payload_is_no_duplicate(place: str, admin: Caller) -> None:  # noqa: F811
    message_id = take(payload="", message_id="empty")
    fail([message_id], days_ago=40)
    same = {"address": "orders.eu", "message_id": "empty", "payload": ""}
    assert admin.post("messages/", same).status_code == 200
    run(place)
    assert admin.post("messages/", same).json()["code"] == "message_id_conflict"
    merged = accept_stream([json.dumps(same).encode()], principal=SYSTEM)
    assert (merged.accepted, merged.duplicates) == (0, 0)
    assert fetch_values("SELECT code FROM rejected_line") == ["message_id_conflict"]


def test_former_versions_lose_nothing_but_the_payloads_that_are_removed(place: str) -> None:  # noqa: F811
    message_id = put_archived(None)  # type: ignore[arg-type]
    empty = "UPDATE payload_version SET payload = '' WHERE message_id = %s"
    with pytest.raises(DatabaseError, match="Cannot update rows"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(empty, [message_id])
    age([message_id], 40)
    run(place)
    assert [bytes(one) for one in fetch_values("SELECT payload FROM payload_version")] == [b""]
    other = "UPDATE payload_version SET payload = '', replaced_by = 'me' WHERE message_id = %s"
    with pytest.raises(DatabaseError, match="Cannot update rows"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(other, [message_id])


def test_the_api_says_when_a_payload_was_removed_and_by_which_policy(
    place: str,  # noqa: F811
    admin: Caller,
    operator: Caller,
) -> None:
    message_id = without_payload(place)
    shown = operator.get(f"messages/{message_id}/").json()
    assert (shown["payload_kept_days"], shown["payload_policy"]) == (30, "orders.#")
    answer = operator.get(f"messages/{message_id}/payload/")
    assert (answer.status_code, answer.json()["code"]) == (410, "payload_removed")
    answer = operator.post(f"messages/{message_id}/approve/", {"reason": "r"})
    assert (answer.status_code, answer.json()["code"]) == (410, "payload_removed")
    assert "by policy orders.#; it cannot be delivered any more" in answer.json()["detail"]
    assert admin.get("archive/").json()["results"][0]["result"]["payloads"] == 1


def test_pages_say_when_a_payload_was_removed_and_by_which_policy(
    place: str,  # noqa: F811
    browser_of: Callable[[str], Client],
) -> None:
    message_id = without_payload(place)
    operator = browser_of("operator")
    page = " ".join(html_of(operator.get(f"/messages/{message_id}/")).split())
    assert "Payload removed on" in page
    assert "kept 30 days by policy" in page
    assert 'data-decision="fail"' in page
    assert 'data-decision="approve"' not in page
    assert operator.get(f"/messages/{message_id}/edit/").status_code == 302
    assert operator.get(f"/messages/{message_id}/payload/").status_code == 410
    assert "1 payload removed" in " ".join(html_of(browser_of("admin").get("/archive/")).split())
