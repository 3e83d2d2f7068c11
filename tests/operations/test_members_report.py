"""The ledger as CSV: a line a member, whatever they hold and however many they are."""

import csv
import io
from collections.abc import Iterable

import pytest
from django.test import Client

from poisonadmin.core.commands.exports.formats import csv_chunks
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Permission, Principal, Role, principal
from poisonadmin.decisions.operations.commands.beginning import begin
from poisonadmin.decisions.operations.commands.carry_out import carry_out_piece
from poisonadmin.decisions.operations.commands.operations import change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.queries import ledger_report as report_module
from poisonadmin.decisions.operations.queries.ledger_report import COLUMNS, ledger_rows
from poisonadmin.decisions.operations.queries.operations import get_operation, list_operation_members
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.domain.outcomes import MemberOutcome
from poisonadmin.search.commands import selections
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.message import Envelope, Message
from poisonadmin.store.models.operation import Operation
from tests.fixtures.api import Caller, take, take_dead
from tests.fixtures.delivery import answer, claim, end_nodes, make_destination
from tests.fixtures.pages import html_of
from tests.operations.follow import approve_all, ledger

pytestmark = pytest.mark.django_db
NDLV = {"state": ["NDLV"]}


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` and `elsewhere.#` deliver, once at most after an approval."""
    make_destination(max_delivery_attempts=1)


def read(chunks: Iterable[bytes]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(chunks).decode(), newline="")))


def rows_of(operation: int, *, who: Principal = SYSTEM, outcome: MemberOutcome | None = None) -> list[dict[str, str]]:
    return read(
        csv_chunks(COLUMNS, ledger_rows(get_operation(operation, principal=SYSTEM), principal=who, outcome=outcome))
    )


def test_each_member_has_a_line_with_what_became_of_it() -> None:
    delivered, failed, nowhere = take_dead(), take_dead(), take_dead("parked.x")
    operation = approve_all()
    taken = claim()
    answer([delivered])
    answer([failed], "failed", fingerprint="e" * 16, title="Other: failure")
    end_nodes(taken)
    settle()
    rows = rows_of(operation)
    assert tuple(rows[0]) == COLUMNS
    assert [(row["id"], row["outcome"], row["code"], row["state"]) for row in rows] == [
        (str(delivered), "delivered", "", "DLVD"),
        (str(failed), "failed_new", "", "NDLV"),
        (str(nowhere), "skipped", "no_destination", "NDLV"),
    ]
    assert (rows[1]["failure_group"], rows[2]["detail"]) == ("Other: failure", "parked.x")
    assert rows[0]["message_id"] == Envelope.objects.get(id=delivered).message_id
    assert all(row["outcome_at"] for row in rows)
    assert [row["id"] for row in rows_of(operation, outcome=MemberOutcome.SKIPPED)] == [str(nowhere)]


@pytest.mark.parametrize("action", [OperationAction.APPROVE, OperationAction.FAIL])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["running", "cancelled"])
def test_the_lines_add_up_to_the_ledger_in_the_middle_of_an_operation(
    action: OperationAction, is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selections, "MEMBERS_A_PIECE", 3)
    monkeypatch.setattr("poisonadmin.decisions.operations.commands.beginning.DECIDED_AT_ONCE", 0)
    monkeypatch.setattr(report_module, "MEMBERS_A_SLICE", 2)
    for _ in range(7):
        take_dead()
    operation = begin(NDLV, action, reason="r", principal=SYSTEM)
    assert carry_out_piece(Operation.objects.get(id=operation))
    if is_cancelled:
        change(operation, OperationChange.CANCEL, reason="stop", principal=SYSTEM)
    rows = rows_of(operation)
    assert len({row["id"] for row in rows}) == 7
    counted = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in MemberOutcome}
    assert {str(outcome): n for outcome, n in counted.items() if n} == ledger(operation)
    assert [bool(row["outcome_at"]) for row in rows] == [row["outcome"] == "changed" for row in rows]


def test_no_cell_is_a_formula() -> None:
    described = {"reason": "gave up", "exception_class": "=HYPERLINK(1)", "exception_message": "+1\r\n@SUM(A1)"}
    take(message_id="=1+1", dead_letter=described)
    [row] = rows_of(approve_all())
    assert row["message_id"] == "'=1+1"
    assert row["failure_group"].startswith("'=HYPERLINK")


def test_a_member_that_left_the_scope_is_counted_and_not_shown() -> None:
    """It was redirected to an address that the account does not see."""
    stayed, gone = take_dead(), take_dead()
    operation = begin(NDLV, OperationAction.FAIL, reason="r", principal=SYSTEM)
    take_dead("secret.x")
    secret = Message.objects.latest("id")
    Message.objects.filter(id=gone).update(address_id=secret.address_id)
    limited = principal("kim", Role.OPERATOR, ["orders.#"])
    here, there = rows_of(operation, who=limited)
    assert (here["id"], here["address"], here["outcome"]) == (str(stayed), "orders.eu", "changed")
    assert {name: text for name, text in there.items() if text} == {
        "id": str(gone),
        "outcome": "changed",
        "outcome_at": there["outcome_at"],
    }
    found = get_operation(operation, principal=limited)
    listed = list_operation_members(found, MemberOutcome.CHANGED, principal=limited)
    assert [row.id for row in listed.results] == [stayed]


def test_who_may_not_export_gets_nothing() -> None:
    take_dead()
    operation = approve_all()
    reader = Principal("reader", Role.VIEWER, frozenset({Permission.READ}))
    with pytest.raises(NotAllowed):
        rows_of(operation, who=reader)


def test_page_and_api_send_it_as_a_file_and_write_down_who_took_it(operator_browser: Client, admin: Caller) -> None:
    take_dead()
    operation = approve_all()
    shown = html_of(operator_browser.get(f"/operations/{operation}/"))
    assert f"/operations/{operation}/members.csv" in shown
    by_page = operator_browser.get(f"/operations/{operation}/members.csv?mark=1")
    assert b"".join(by_page).startswith(b'\xef\xbb\xbf"id",')
    by_api = admin.get(f"operations/{operation}/members.csv?outcome=unanswered")
    assert [row["outcome"] for row in read(by_api)] == ["unanswered"]
    for answered in (by_page, by_api):
        assert answered["Content-Disposition"] == f'attachment; filename="operation-{operation}.csv"'
        assert answered["Content-Type"].startswith("text/csv")
    exported = Audit.objects.filter(action="report.exported", object_type="operation", object_id=str(operation))
    assert [row.details for row in exported.order_by("id")] == [{"rows": 1}, {"rows": 1, "outcome": "unanswered"}]
    assert admin.get(f"operations/{operation}/members.csv?outcome=nonsense").status_code == 400
