"""Owner, tags and note of messages: set on any number at once, found again, and no business of their deliveries."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.decisions.commands.refused_decisions import NotAssigned
from poisonadmin.decisions.operations.commands import beginning
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.commands.operations import carry_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.desk.queries.detail import get_message, history
from poisonadmin.desk.queries.schedule import schedule
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.queries.grouping import group_messages
from poisonadmin.search.commands import selections
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.lists import list_messages
from poisonadmin.search.queries.owners import account_names
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.failure_group import Annotation
from poisonadmin.store.models.message import Message
from tests.fixtures import decisions
from tests.fixtures.api import Caller, make_user, take, take_dead
from tests.fixtures.delivery import claim, counted, counters, make_destination, states
from tests.fixtures.pages import html_of
from tests.operations.follow import ledger

pytestmark = pytest.mark.django_db
NDLV = {"state": ["NDLV"]}
ASSIGN = OperationAction.ASSIGN


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver, and let kim and lee have accounts."""
    make_destination()
    for name in ("kim", "lee"):
        make_user(name, Role.OPERATOR, [])


def assign(ids: list[int], **params: Any) -> None:
    decide_on(ids, ASSIGN, params=params, reason="r", principal=SYSTEM)


def found(**params: list[str]) -> list[int]:
    return sorted(row.id for row in list_messages(parse_filter(params), principal=SYSTEM).results)


def test_a_whole_selection_gets_an_owner_and_tags_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "MEMBERS_A_PIECE", 2)
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    ids = [take_dead() for _ in range(5)]
    assign(ids[:1], owner="kim", tags={"add": ["eu", "new"]})
    before = list(Message.objects.order_by("id").values())
    params = {"owner": "kim", "tags": {"add": ["EU", "late"], "remove": ["new"]}}
    operation = begin(NDLV, ASSIGN, reason="handed over", principal=SYSTEM, params=params)
    carry_on()
    assert get_operation(operation, principal=SYSTEM).state == "completed"
    assert ledger(operation) == {"changed": 5}
    assert list(Message.objects.order_by("id").values()) == before
    for row in list_messages(parse_filter(NDLV), principal=SYSTEM).results:
        assert (row.owner, list(row.tags)) == ("kim", ["eu", "late"])
    [step, *_] = history(ids[1], principal=SYSTEM).results
    assert (step.event, step.from_state, step.to_state) == ("assigned", "NDLV", "NDLV")
    assert (step.operation_id, step.note, step.actor) == (operation, "handed over", "system")
    assert counted() == counters()


def test_what_is_so_already_is_left_alone() -> None:
    ids = [take_dead() for _ in range(3)]
    assign(ids[:1], owner="kim", tags={"add": ["eu"]})
    operation = begin(NDLV, ASSIGN, reason="r", principal=SYSTEM, params={"owner": "kim", "tags": {"add": ["eu"]}})
    assert {one.code: one.count for one in get_operation(operation, principal=SYSTEM).skipped} == {"unchanged": 1}
    assert ledger(operation) == {"skipped": 1, "changed": 2}


def test_owner_and_tags_are_taken_away_and_what_is_not_named_stays() -> None:
    [message] = [take_dead()]
    Annotation.objects.create(message_id=message, tags=["Odd one", "eu"])  # as a rule puts it
    assign([message], owner="kim")
    assert (get_message(message, principal=SYSTEM).owner, Annotation.objects.get().tags) == ("kim", ["Odd one", "eu"])
    assign([message], tags={"remove": ["Odd one"]})
    assert (get_message(message, principal=SYSTEM).owner, Annotation.objects.get().tags) == ("kim", ["eu"])
    assign([message], owner=None)
    assert not Annotation.objects.exclude(owner=None).exists()
    assert list(get_message(message, principal=SYSTEM).tags) == ["eu"]


def test_a_note_is_put_on_messages_and_taken_away_and_the_rest_stays() -> None:
    ids = [take_dead() for _ in range(2)]
    assign(ids[:1], owner="kim", tags={"add": ["eu"]})
    assign(ids, note=" Asked <b>Ada</b>.\nShe knows. ")
    first, other = (get_message(one, principal=SYSTEM) for one in ids)
    assert (first.owner, list(first.tags), first.note) == ("kim", ["eu"], "Asked <b>Ada</b>.\nShe knows.")
    assert (other.owner, list(other.tags), other.note) == (None, [], first.note)
    again = decide_on(ids, ASSIGN, params={"note": first.note}, reason="r", principal=SYSTEM)
    assert again.refused == dict.fromkeys(ids, "unchanged")
    assign(ids[:1], note=None)
    first = get_message(ids[0], principal=SYSTEM)
    assert (first.owner, list(first.tags), first.note) == ("kim", ["eu"], "")
    assert found(owner=["none"]) == ids[1:]


def test_a_subject_has_one_annotation_and_an_annotation_one_subject() -> None:
    for wrong in ({"message_id": 1, "group_id": 1}, {}, {"message_id": 2}, {"group_id": 2}):
        Annotation.objects.get_or_create(message_id=2)
        Annotation.objects.get_or_create(group_id=2)
        with pytest.raises(IntegrityError), transaction.atomic():
            Annotation.objects.create(**wrong)


def test_it_fits_any_state_but_that_of_what_is_under_way() -> None:
    under_way = take()
    claim()
    waiting, undecided, given_up = take(), take_dead(), take_dead()
    decisions.mark_fail([given_up], principal=SYSTEM, reason="r")
    ids = [under_way, waiting, undecided, given_up]
    decided = decide_on(ids, ASSIGN, params={"owner": "kim"}, reason="r", principal=SYSTEM)
    assert decided.refused == {under_way: "DLNG"}
    assert states(ids) == ["DLNG", "TBDL", "NDLV", "FAIL"]
    assert found(owner=["kim"]) == [waiting, undecided, given_up]


def test_the_schedule_of_what_waits_is_explained_as_before() -> None:
    waiting = take()
    before = schedule(waiting, principal=SYSTEM)
    assign([waiting], owner="kim")
    assert schedule(waiting, principal=SYSTEM) == before


def test_messages_are_found_by_owner_and_by_tag() -> None:
    ids = [take_dead() for _ in range(4)]
    assign(ids[:2], owner="kim")
    assign(ids[2:3], owner="lee")
    assign(ids[1:3], tags={"add": ["eu"]})
    assert found(owner=["kim"]) == ids[:2]
    assert found(owner=["kim", "lee"]) == ids[:3]
    assert found(owner=["none"]) == ids[3:]
    assert found(owner=["nobody-of-this-name"]) == []
    assert found(q=["!owner:kim"]) == ids[2:]
    assert found(q=["owner:kim tag:eu"]) == [ids[1]]
    assert found(tag=["eu", "us"]) == ids[1:3]
    assert found(q=["!tag:eu"]) == [ids[0], ids[3]]


def test_messages_are_grouped_by_owner() -> None:
    ids = [take_dead() for _ in range(4)]
    assign(ids[:2], owner="kim")
    assign(ids[2:3], owner="lee")
    sets = group_messages(parse_filter(NDLV), "owner", principal=SYSTEM).sets
    assert [(one.value, one.messages, one.undecided) for one in sets] == [("kim", 2, 2), ("lee", 1, 1), (None, 1, 1)]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "params.owner"),
        ({"owner": "nobody-of-this-name"}, "params.owner"),
        ({"owner": 7}, "params.owner"),
        ({"tags": ["eu"]}, "params.tags"),
        ({"tags": {}}, "params.tags"),
        ({"tags": {"add": [], "remove": []}}, "params.tags"),
        ({"tags": {"add": ["two words"]}}, "params.tags.add"),
        ({"tags": {"add": [7]}}, "params.tags.add"),
        ({"tags": {"add": ["x"] * 5 + [f"t{n}" for n in range(10)]}}, "params.tags.add"),
        ({"tags": {"remove": ["x" * 51]}}, "params.tags.remove"),
        ({"tags": {"add": ["eu"], "remove": ["eu"]}}, "params.tags.remove"),
        ({"note": 7}, "params.note"),
        ({"note": "x" * 4001}, "params.note"),
        ({"note": "\0"}, "params.note"),
        ({"address": "orders.us"}, "params.address"),
    ],
)
def test_what_is_wrong_is_named(params: dict[str, Any], field: str) -> None:
    take_dead()
    with pytest.raises(InvalidOperation) as error:
        begin(NDLV, ASSIGN, reason="r", principal=SYSTEM, params=params)
    assert error.value.field == field


def test_a_message_has_a_limited_number_of_tags() -> None:
    [message] = [take_dead()]
    for first in (0, 10):
        assign([message], tags={"add": [f"t{n}" for n in range(first, first + 10)]})
    one_more = {"tags": {"add": ["more"]}}
    with pytest.raises(NotAssigned, match="at most 20 tags"):
        decide_on([message], ASSIGN, params=one_more, reason="r", principal=SYSTEM, is_one=True)
    instead = {"tags": {"add": ["more"], "remove": ["t0"]}}
    decide_on([message], ASSIGN, params=instead, reason="r", principal=SYSTEM, is_one=True)
    assert len(Annotation.objects.get().tags) == 20


def test_an_account_that_goes_meanwhile_does_not_stop_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "DECIDED_AT_ONCE", 0)
    ids = [take_dead() for _ in range(2)]
    assign(ids[:1], owner="lee")
    operation = begin(NDLV, ASSIGN, reason="r", principal=SYSTEM, params={"owner": "kim"})
    User.objects.filter(username__in=["kim", "lee"]).delete()
    carry_on()
    shown = get_operation(operation, principal=SYSTEM)
    assert (shown.state, [(one.code, one.count) for one in shown.skipped]) == ("completed", [("no_owner", 2)])
    assert not Annotation.objects.exclude(owner=None).exists()


def test_what_is_out_of_scope_is_not_assigned() -> None:
    here, there = take_dead(), take_dead("elsewhere.x")
    limited = principal("ann", Role.OPERATOR, ["orders.#"])
    decided = decide_on([here, there], ASSIGN, params={"owner": "kim"}, reason="r", principal=limited)
    assert (decided.changed, decided.refused) == ((here,), {there: "not_found"})
    with pytest.raises(NotFound):
        begin(freeze(NDLV, principal=SYSTEM), ASSIGN, reason="r", principal=limited, params={"owner": "kim"})


def test_who_is_limited_cannot_tell_an_account_of_other_addresses_from_none(operator: Caller) -> None:
    message = take_dead()
    group = Message.objects.get(id=message).group_id
    take_dead("elsewhere.x")
    make_user("near", Role.VIEWER, ["*.eu"])
    make_user("far", Role.ADMIN, ["elsewhere.#"])
    assert set(account_names(principal("ann", Role.OPERATOR, ["orders.#"]))) == {"kim", "lee", "near", "operator"}
    assert "far" in account_names(principal("ann", Role.OPERATOR))
    assert account_names(principal("vic", Role.VIEWER)) == []
    Access.objects.filter(user__username="operator").update(address_patterns=["orders.#"])
    selection = operator.post("selections/", {"ids": [str(message)]}).json()["id"]

    def answers(owner: str) -> list[str]:
        asked = {"reason": "r", "owner": owner}
        params = {"action": "assign", "params": {"owner": owner}}
        found = [
            operator.post(f"messages/{message}/assign/", asked),
            operator.ask("PATCH", f"groups/{group}/", {"owner": owner}),
            operator.post(f"selections/{selection}/preview/", params),
            operator.get(f"messages/?owner={owner}"),
            operator.get(f"groups/?owner={owner}"),
        ]
        return [re.sub(f'{owner}|"request_id":"[^"]*"', "", one.content.decode()) for one in found]

    assert answers("far") == answers("nobody-at-all") != answers("near")


def test_only_a_rule_that_names_it_asks_for_a_sign_off() -> None:
    for _ in range(3):
        take_dead()
    save_sign_off_rule("orders.#", None, above=1, principal=SYSTEM)
    assert ledger(begin(NDLV, ASSIGN, reason="r", principal=SYSTEM, params={"owner": "kim"})) == {"changed": 3}
    save_sign_off_rule("orders.#", "assign", above=2, principal=SYSTEM)
    waits = begin(NDLV, ASSIGN, reason="r", principal=SYSTEM, params={"owner": "lee"})
    assert get_operation(waits, principal=SYSTEM).state == "waiting_for_sign_off"


def test_one_message_is_assigned_over_the_api(operator: Caller) -> None:
    [message] = [take_dead()]
    asked = {"reason": "mine", "owner": "kim", "tags": {"add": ["eu"]}, "note": "Ask Ada."}
    answer = operator.post(f"messages/{message}/assign/", asked)
    assert answer.status_code == 200
    assert [answer.json()[name] for name in ("owner", "tags", "note")] == ["kim", ["eu"], "Ask Ada."]
    again = operator.post(f"messages/{message}/assign/", asked)
    assert (again.status_code, again.json()["code"]) == (409, "not_assigned")
    assert [one["id"] for one in operator.get("messages/?owner=kim&tag=eu").json()["results"]] == [str(message)]
    unknown = operator.post(f"messages/{message}/assign/", asked | {"owner": "nobody-of-this-name"})
    assert (unknown.status_code, unknown.json()["code"]) == (400, "invalid_operation")


def test_on_pages_a_selection_is_assigned_and_shows_it(operator_browser: Client) -> None:
    ids = [take_dead() for _ in range(2)]
    selection = f"/operations/selections/{freeze(NDLV, principal=SYSTEM)}/?action=assign"
    form = html_of(operator_browser.get(selection))
    assert "Add tags" in form
    assert "Most deliveries a second" not in form
    nothing = html_of(operator_browser.post(selection, {}))
    assert "Choose an owner, tags or a note." in nothing
    chosen = {"owner": "kim", "tags_add": "eu, late", "tags_remove": "", "note": "<b>Ask Ada</b>"}
    assert "2 of 2 will be assigned" in html_of(operator_browser.post(selection, chosen))
    begun = operator_browser.post(selection, chosen | {"reason": "handed over", "begin": "1"})
    shown = html_of(operator_browser.get(begun["Location"]))
    assert "Assign 2 messages" in shown
    assert "add eu, late" in shown
    assert "&lt;b&gt;Ask Ada&lt;/b&gt;" in shown
    message = html_of(operator_browser.get(f"/messages/{ids[0]}/"))
    assert "&lt;b&gt;Ask Ada&lt;/b&gt;" in message
    assert "/triage/?owner=kim" in message
    assert "/triage/?tag=eu" in message
    listed = html_of(operator_browser.get("/triage/?q=owner:kim"))
    assert "Owner: kim" in listed
    for word, option in (("owner:k", "owner:kim"), ("owner:n", "owner:none"), ("tag:l", "tag:late"), ("own", "owner:")):
        assert f'value="{option}"' in html_of(operator_browser.get("/triage/completions/", {"q": word}))


def test_the_page_of_a_message_shows_the_notes_of_its_group_beside_its_own(operator_browser: Client) -> None:
    ids = [take_dead() for _ in range(2)]
    group = get_message(ids[0], principal=SYSTEM).group_id
    assert group is not None
    page = f"/messages/{ids[0]}/"
    assert "Notes" not in html_of(operator_browser.get(page))
    annotate(group, {"owner": "lee", "tags": ["known"], "note": "See the ticket."}, principal=SYSTEM)
    shown = html_of(operator_browser.get(page))
    for text in ("Notes and snooze", "group_owner=lee", "group_tag=known", "See the ticket."):
        assert text in shown
    assign(ids[:1], note="This one is odd.")
    assert "This one is odd." in html_of(operator_browser.get(page))
    removed = {"id": str(ids[0]), "origin": "message", "reason": "mine", "note_remove": "on"}
    assert operator_browser.post("/messages/decide/assign/now/", removed).status_code == 302
    assert get_message(ids[0], principal=SYSTEM).note == ""


def test_the_dialog_of_one_message_says_at_its_field_what_is_wrong(operator_browser: Client) -> None:
    [message] = [take_dead()]
    asked = {"id": str(message), "origin": "message", "reason": "mine"}
    assert "Add tags" in html_of(operator_browser.post("/messages/decide/assign/", asked))
    wrong = operator_browser.post("/messages/decide/assign/now/", asked | {"tags_add": "two words"})
    assert (wrong.status_code, "Must be words of 1 to 30 characters" in html_of(wrong)) == (422, True)
    done = operator_browser.post("/messages/decide/assign/now/", asked | {"owner": "/nobody", "tags_add": "eu"})
    assert done.status_code == 302
    again = operator_browser.post("/messages/decide/assign/now/", asked | {"tags_add": "eu"})
    assert (again.status_code, "has this owner, these tags and this note already" in html_of(again)) == (422, True)
    assert Annotation.objects.get().tags == ["eu"]
