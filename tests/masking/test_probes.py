"""Who may not read a value does not learn it by asking for it: the right guess is answered as a wrong one is."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.deep.commands.requests import request_search
from poisonadmin.store.models.message import Message
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import Caller, make_user
from tests.fixtures.pages import dead_letter, log_in
from tests.masking.planted import ADDRESS, BODY, CANARY, HEADERS, LETTER, mask, plant
from tests.reports.test_pages import FORM
from tests.searches.plain import PLAIN, search_due

pytestmark = pytest.mark.django_db
Ask = Callable[[Caller, str], Any]

# As long as the canary, and nowhere.
GUESS = "kanarienhaehne"[: len(CANARY)]
READ = (
    "messages/?key.customer={}",
    "messages/?header.X-Customer={}",
    "messages/?error={}",
    "messages/?failure={}",
    "messages/?q={}",
    "messages/?q=!key.customer:{}",
    "messages/?q=!error:{}",
    "failures/?error={}",
    "groups/?error={}",
)
COUNTED: dict[str, Ask] = {
    "selection": lambda who, text: who.post("selections/", {"filter": {"key.customer": text}}).json().get("count"),
    "report": lambda who, text: _rows(who, "failures", {"header.X-Customer": [text]}),
    "report of attempts": lambda who, text: _rows(who, "attempts", {"error": [text]}),
    "report of the poison list": lambda who, text: _rows(who, "blacklist", {"key.customer": [text]}),
    "search in payloads": lambda who, text: _hits(who, f"payload:{text}"),
    "search at a path": lambda who, text: _hits(who, f"payload.$.customer.name:{text}"),
    "search in headers": lambda who, text: _hits(who, f"header.X-Customer:{text}"),
}


def _rows(who: Caller, kind: str, message_filter: dict[str, list[str]]) -> int:
    body = {"kind": kind, "format": "json", "columns": ["id"], "filter": message_filter}
    return int(who.post("reports/", body).json()["count"])


def _hits(who: Caller, query: str) -> int:
    begun = who.post("searches/", {"q": query}).json()["id"]
    search_due(PLAIN)
    return int(who.get(f"searches/{begun}/").json()["result"]["hits"])


def read(path: str) -> Ask:
    def ask(who: Caller, text: str) -> Any:
        return who.get(path.format(text)).content.decode().replace(text, "…")

    return ask


@pytest.mark.parametrize("ask", [*map(read, READ), *COUNTED.values()], ids=[*READ, *COUNTED])
def test_a_right_guess_is_answered_as_a_wrong_one(ask: Ask, operator: Caller, admin: Caller) -> None:
    plant()
    mask("planted.#", "admin")
    assert ask(admin, CANARY) != ask(admin, GUESS)
    assert ask(operator, CANARY) == ask(operator, GUESS)


PAGES = (
    "/triage/?key.customer={}",
    "/triage/?group_by=failures&error={}",
    "/triage/?group_by=failure&failure={}",
    "/triage/messages.csv?key.customer={}",
    "/palette/?q={}",
)


@pytest.mark.usefixtures("page_settings")
def test_a_page_leads_nowhere_by_a_right_guess() -> None:
    planted = plant()
    mask("planted.#", "admin")
    admin, operator = log_in("admin"), log_in("operator")

    def shown(who: Client, path: str) -> bool:
        answer = who.get(path.format(CANARY))
        page = b"".join(answer.streaming_content) if answer.streaming else answer.content
        links = (
            f"/messages/{planted['message']}/",
            f"/groups/{planted['group']}/",
            f"\n{planted['message']},",
            ADDRESS,
        )
        return any(link.encode() in page for link in links)

    assert [path for path in PAGES if not shown(admin, path)] == []
    assert [path for path in PAGES if shown(operator, path)] == []


def test_a_search_of_somebody_who_reads_more_is_not_shown(operator: Caller, admin: Caller) -> None:
    plant()
    mask("planted.#", "admin")
    found = admin.post("searches/", {"q": f"payload:{CANARY}"}).json()["id"]
    of_system = request_search({"q": [f"payload:{CANARY}"]}, principal=SYSTEM)
    assert admin.get(f"searches/{of_system}/").status_code == 200
    for search in (found, of_system):
        assert operator.get(f"searches/{search}/").status_code == 404
        assert operator.get(f"searches/{search}/messages/").status_code == 404


def test_a_rule_holds_where_a_message_came_in_whatever_has_become_of_it(operator: Caller, admin: Caller) -> None:
    plant()
    save_policy("open.#", preset=None, settings={}, destination="planted", principal=SYSTEM)
    letter = {"dead_letter": LETTER | {"original_address": "open.home"}, "headers": HEADERS | {"X-Held": CANARY}}
    moved = dead_letter("held.letters", payload=BODY, **letter)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO business_key (message_id, name, value) VALUES (%s, 'customer', %s)", [moved.id, CANARY]
        )
    decide_on([moved.id], OperationAction.APPROVE, reason="r", principal=SYSTEM)
    now = Message.objects.get(id=moved.id)
    assert (now.address.name, now.original_address_id) == ("open.home", None)
    mask("held.#", "admin")
    report = {"kind": "failures", "format": "json", "filter": {"address": ["open.#"]}}
    report["columns"] = ["id", "payload", "header.X-Customer", "key.customer", "error_message"]
    asked: dict[str, Callable[[Caller], Any]] = {
        path: lambda who, path=path: who.get(path)  # type: ignore[misc]
        for path in (
            *(f"messages/{moved.id}/{part}" for part in ("", "payload/", "attempts/")),
            "messages/?address=open.home",
            f"failures/?message={moved.id}",
        )
    }
    asked["report"] = lambda who: who.post("reports/", report)
    for name, ask in asked.items():
        assert CANARY in body_of(ask(admin)), name
        assert CANARY not in body_of(ask(operator)), name
    for query in ("key.customer", "header.X-Held", "q"):
        assert len(admin.get(f"messages/?address=open.home&{query}={CANARY}").json()["results"]) == 1, query
        assert operator.get(f"messages/?address=open.home&{query}={CANARY}").json()["results"] == [], query
    change = {"reason": "r", "payload": "{}"}
    assert operator.post(f"messages/{moved.id}/patch/", change).json()["code"] == "masked"


def body_of(answer: Any) -> str:
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()


@pytest.mark.usefixtures("page_settings")
def test_the_preview_of_a_report_is_masked_as_the_report() -> None:
    plant()
    mask("planted.#", "admin")
    columns = "id, failure_group, error_message, payload, header.X-Customer, key.customer"
    sent = FORM | {"filter": "address=planted.one", "columns": columns, "do": "preview"}
    shown = {who: log_in(who).post(reverse("reports-new"), sent).content.decode() for who in ("admin", "operator")}
    assert shown["admin"].count(CANARY) >= 5
    assert CANARY not in shown["operator"]
    assert shown["operator"].count("[masked:") >= 5


@pytest.mark.usefixtures("page_settings")
def test_a_sample_of_a_group_is_masked_by_its_message_and_left_out_where_its_payload_is_removed() -> None:
    planted = plant()
    elsewhere = dead_letter("open.one", payload=BODY, dead_letter=LETTER)
    assert elsewhere.group_id == planted["group"]
    mask("planted.#", "admin", json_path="$.customer")
    admin, operator = log_in("admin"), log_in("operator")

    def sample(who: Client) -> tuple[int, str]:
        shown = who.get(f"/groups/{planted['group']}/").context["sample"]
        return shown[0], " ".join(node.text for node in shown[1])

    assert sample(operator) == sample(admin)
    assert sample(operator)[0] == elsewhere.id, "the latest"
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO removed_payload (message_id, kept_days, policy) VALUES (%s, 1, 'open.#')", [elsewhere.id]
        )
    message_id, text = sample(operator)
    assert message_id == sample(admin)[0] == planted["edited"]
    assert CANARY in sample(admin)[1]
    assert "[masked:" in text


def test_an_answer_given_before_is_not_read_by_whom_it_is_masked_for_since(operator: Caller) -> None:
    message = plant()["message"]
    reason = {"reason": "r"}
    first = operator.ask("POST", f"messages/{message}/fail/", reason, Idempotency_Key="one")
    again = operator.ask("POST", f"messages/{message}/fail/", reason, Idempotency_Key="one")
    assert (CANARY in first.content.decode(), again.content) == (True, first.content)
    mask("planted.#", "admin")
    refused = operator.ask("POST", f"messages/{message}/fail/", reason, Idempotency_Key="one")
    assert (refused.status_code, refused.json()["code"]) == (409, "answer_withheld")
    assert CANARY not in refused.content.decode()


@pytest.mark.parametrize("match", [{"headers": [{"name": "X-Customer", "like": "{}"}]}, {"message": "*{}*"}])
def test_no_rule_is_tried_on_messages_of_which_something_is_masked(match: dict[str, Any], admin: Caller) -> None:
    plant()
    stage = "after" if "message" in match else "before"
    text = json.dumps({"address": ADDRESS, **match}).replace("{}", CANARY)
    action = {"do": "park"} if stage == "after" else {"do": "tag", "tags": ["hit"]}
    body = {"stage": stage, "match": json.loads(text), "action": action}
    rule = admin.post("rules/", {"name": "guess", **body}).json()["id"]
    assert admin.post(f"rules/{rule}/dry_run/").status_code == 202
    mask("planted.#")
    for refused in (admin.post(f"rules/{rule}/dry_run/"), admin.get(f"rules/{rule}/dry_run/")):
        assert (refused.status_code, refused.json()["code"]) == (403, "masked")
    browser = Client()
    browser.force_login(User.objects.get(username="admin"))
    page = browser.get(f"/rules/{rule}/")
    assert (page.status_code, "are masked for" in page.content.decode()) == (200, True)
    other = admin.post("rules/", {"name": "by address", **body, "match": {"address": ADDRESS}}).json()["id"]
    assert admin.post(f"rules/{other}/dry_run/").status_code == 202, "it asks for nothing that is masked"


@pytest.mark.parametrize("asked", [{"key.customer": CANARY}, {"header.X-Customer": CANARY}, {"q": f"error:{CANARY}"}])
def test_no_hold_and_no_erasure_asks_for_what_is_masked(asked: dict[str, str], admin: Caller) -> None:
    plant()
    mask("planted.#")
    for path, more in (("legal-holds/", {}), ("erasures/", {"expected_count": 1})):
        refused = admin.post(path, {"filter": asked, "reason": "r", **more})
        assert (refused.status_code, refused.json()["code"]) == (403, "masked"), path
    assert admin.post("legal-holds/", {"filter": {"address": ADDRESS}, "reason": "r"}).status_code == 201


def test_a_pattern_out_of_scope_is_not_named_where_it_leaves_messages_out() -> None:
    plant()
    mask("planted.#")
    mask("elsewhere.#")
    dead_letter("elsewhere.one")
    user = make_user("pat", Role.OPERATOR, ["planted.#"])
    limited = Caller(create_token(user, "test", scopes=list(Permission), by="test").text)
    found = limited.get(f"messages/?error={GUESS}").json()
    assert found["not_searched"] == ["planted.#"]
