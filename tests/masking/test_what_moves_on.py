"""What is masked at an address is masked wherever its messages, their children and texts about them go."""

import csv
import io
from dataclasses import replace

import pytest
from django.db import connection, transaction

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.alerts.queries.alerts import list_alerts
from poisonadmin.core.commands.authentication import authenticate, principal_of_user
from poisonadmin.core.domain.access import SYSTEM, Permission, Principal, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.domain.masking import MARK
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.queries.ledger_report import COLUMNS, ledger_rows
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.restart_jobs.commands import save_restart_job
from poisonadmin.decisions.restart_jobs.queries import list_restart_jobs
from poisonadmin.delivery.commands.child_messages import record_moves
from poisonadmin.desk.queries.detail import payload
from poisonadmin.groups.queries.groups import get_group
from poisonadmin.messages.domain.states import Event, Reason, State
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.poison_list.queries.entries import list_entries
from poisonadmin.policies.domain.retry_decision import RetryDecision
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.reports.queries.rows import rows_at_once
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.message import Envelope, Message
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import make_user
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter
from tests.masking.planted import ADDRESS, BODY, CANARY, LETTER, mask

pytestmark = pytest.mark.django_db(transaction=True)


def olga() -> Principal:
    """Return an operator as of now: what is masked is read once for each."""
    return principal("olga", Role.OPERATOR)


def planted() -> Message:
    return dead_letter(ADDRESS, payload=BODY, dead_letter=LETTER)


def body_of(message_id: int, who: Principal) -> str:
    return b"".join(payload(message_id, principal=who).slices).decode()


def reported(who: Principal) -> str:
    asked = asked_report("failures", format="csv", filter={}, columns=["id", "payload"], time_zone="UTC")
    return str(rows_at_once(asked, principal=who, limit=50).rows)


def found(who: Principal, **words: str) -> list[int]:
    asked = parse_filter({name: [text] for name, text in words.items()})
    return [row.id for row in list_messages(asked, principal=who).results]


def test_the_child_of_a_masked_message_is_masked() -> None:
    make_orders_destination()  # `orders.#` delivers
    parent = planted()
    dead_letter("orders.dead")
    mask("planted.#", "admin", json_path="$.customer")
    moved = RetryDecision(
        State.NDLV, Event.FAILED, Reason.ATTEMPTS_EXHAUSTED, None, "orders.dead", 1, create_child=True
    )
    with transaction.atomic(), connection.cursor() as cursor:
        assert record_moves(cursor, [(parent.id, ADDRESS, moved)])
    child = Envelope.objects.get(parent_id=parent.id).id
    assert CANARY in body_of(child, SYSTEM)
    assert body_of(child, olga()) == body_of(parent.id, olga())
    assert "[masked:" in body_of(child, olga())
    ended = {"state": "NDLV", "reason": "attempts_exhausted", "due_at": None, "failed_at": parent.failed_at}
    Message.objects.filter(id=child).update(**ended)
    rows = reported(olga())
    assert f"({child}, " in rows
    assert CANARY not in rows
    assert CANARY in reported(SYSTEM)


def test_what_is_masked_stays_so_two_addresses_further_on() -> None:
    make_orders_destination()
    message = dead_letter("first.one", payload=BODY)
    mask("orders.second", "admin", json_path="$.customer")
    for address in ("orders.second", "orders.third", "orders.fourth"):
        decide_on([message.id], OperationAction.REDIRECT, params={"address": address}, reason="r", principal=SYSTEM)
        Message.objects.filter(id=message.id).update(state="NDLV", reason="returned", due_at=None)
    assert Message.objects.get(id=message.id).address.name == "orders.fourth"
    assert "[masked:" in body_of(message.id, olga())


def test_one_title_has_one_mask_and_older_alerts_have_it_too() -> None:
    to = {"channel": "webhook", "to": ["https://hooks.example.org/in"], "addresses": ["#"]}
    save_alert_rule(AlertRuleFields(name="new", kinds=["new_group"], **to), principal=SYSTEM)
    message = planted()
    record_alerts()
    [alert] = list_alerts(principal=olga()).results
    assert CANARY in alert.title
    mask("planted.#", "admin")
    reader = olga()
    [alert] = list_alerts(principal=reader).results
    [row] = list_messages(parse_filter({}), principal=reader).results
    title = get_group(message.group_id or 0, principal=reader).title
    assert MARK.fullmatch(title)
    assert (row.group_title, alert.title) == (title, f"New failure group: {title}")


def test_a_masked_id_is_in_no_ledger_no_search_and_no_poison_list() -> None:
    message = planted()
    number = begin(freeze(ids=[message.id], principal=SYSTEM), OperationAction.FAIL, reason="r", principal=SYSTEM)
    sent = Envelope.objects.get(id=message.id).message_id
    report(Report(source=ADDRESS, bookmark=sent, why="w"), principal=SYSTEM)
    assert found(olga(), q=sent) == [message.id]
    mask("planted.#", "admin", key="message_id")
    reader = olga()
    assert found(reader, q=sent) == found(reader, q=sent[:4]) == found(reader, message_id=sent) == []
    text = io.StringIO()
    for rows in ledger_rows(get_operation(number, principal=reader), principal=reader):
        csv.writer(text).writerows([COLUMNS, *rows])
    assert sent not in text.getvalue()
    assert "[masked:" in text.getvalue()
    assert sent not in str(list_entries(principal=reader).results)


def test_the_selection_of_somebody_else_tells_nothing_that_is_masked() -> None:
    planted()
    asked = {"error": [CANARY]}
    selection = freeze(asked, principal=SYSTEM)
    save_restart_job("again", filter=asked, action="approve", reason="r", principal=SYSTEM)
    assert get_selection(selection, principal=olga()).count == 1
    assert len(list_restart_jobs(principal=olga())) == 1
    mask("planted.#", "admin", json_path="$.customer")
    reader = olga()
    with pytest.raises(NotFound):
        get_selection(selection, principal=reader)
    assert list_restart_jobs(principal=reader) == []
    begin(selection, OperationAction.FAIL, reason="r", principal=SYSTEM)
    assert get_selection(selection, principal=reader).filter is None


def test_what_one_asked_for_is_shown_to_its_person_and_to_no_namesake() -> None:
    """With a token as on the pages; names may be alike, and be given again."""
    planted()
    mask("planted.#", json_path="$.customer")
    user = make_user("olga", Role.ADMIN, [])
    text = create_token(user, "script", scopes=list(Permission), by="test").text
    (_, token), session = authenticate(text) or (None, SYSTEM), principal_of_user(user)
    assert session is not None
    assert token.name != session.name
    namesake = replace(token, account="token 900", user="user 900")
    asked = {"q": ["plan"]}
    selection = freeze(asked, principal=token)
    assert (
        get_selection(selection, principal=token).filter == get_selection(selection, principal=session).filter == asked
    )
    with pytest.raises(NotFound):
        get_selection(selection, principal=namesake)
    save_restart_job("again", filter=asked, action="approve", reason="r", principal=token)
    assert len(list_restart_jobs(principal=token)) == len(list_restart_jobs(principal=session)) == 1
    assert list_restart_jobs(principal=namesake) == []
