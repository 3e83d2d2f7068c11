"""Every page as anonymous, viewer, operator, admin and outsider; a new route without an expectation fails."""

from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import SimpleCookie

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, reverse
from pytest_django import DjangoDbBlocker

from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.archive.commands.holds import hold
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.comparisons.commands.requests import request_comparison
from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.restart_jobs.commands import save_restart_job
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.groups.alike.commands import request_search as request_alike_search
from poisonadmin.masking.commands import save_masking_rule
from poisonadmin.masking.domain import MaskingRuleFields
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.policies.commands import save_policy
from poisonadmin.reports.commands.requests import request_report
from poisonadmin.reports.commands.saved import save_report
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.rules.commands import create_rule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.deep.commands.requests import request_search
from poisonadmin.search.views.commands import save_view
from poisonadmin.sources.commands.broker_checks import request_source_check
from poisonadmin.sources.commands.setup import save_source
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose
from poisonadmin.store.models.access import Access
from poisonadmin.store.models.alert import AlertDelivery
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.intake import RejectedLine, Source
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.poison import PoisonEntry
from poisonadmin.store.models.rule import PolicyRow
from poisonadmin.store.models.run import LongRun
from tests.alike_groups.proposals import make_proposal
from tests.crashes import blacklist
from tests.fixtures.database import Snapshot, taken_away
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter, log_in, page_routes, waiting

pytestmark = pytest.mark.django_db

OF_AN_ADDRESS = "404 for the outsider"
OPEN = "an empty page for the outsider"
NOTHING = "400 for the outsider, who sees nothing to act on"
OUTSIDE = {OF_AN_ADDRESS: 404, NOTHING: 400}


@dataclass(frozen=True)
class Expected:
    """How a route answers: `permission` decides who gets `status`, `scope` what the outsider gets."""

    permission: Permission = Permission.READ
    scope: str = OPEN
    method: str = "get"
    sent: dict[str, str] = field(default_factory=dict)
    status: int = 200


READ, PAYLOAD, DECIDE = Permission.READ, Permission.READ_PAYLOAD, Permission.DECIDE
PAUSE, EXPORT, CONFIGURE = Permission.PAUSE, Permission.EXPORT, Permission.CONFIGURE
INGEST, SIGN_OFF, REVEAL = Permission.INGEST, Permission.SIGN_OFF, Permission.REVEAL
ALLOWED = {
    "viewer": {READ},
    "operator": {READ, PAYLOAD, REVEAL, EXPORT, DECIDE, PAUSE, INGEST},
    "admin": set(Permission),
}
EVERYBODY = ("anonymous", "roleless", *ALLOWED, "outsider")
SLUGS = {"name": "viewer", "action": "approve", "step": "queues", "outcome": "unanswered", "what": "pause"}
BROKER = {"name": "dead", "kind": "rabbitmq", "url": "amqp://rabbit.example.org", "queues": "orders.dlq"}

ROUTES = {
    "overview": Expected(),
    "overview-outcomes": Expected(),
    "triage": Expected(),
    "triage-facets": Expected(),
    "triage-candidates": Expected(),
    "triage-completions": Expected(),
    "palette": Expected(),
    "help": Expected(),
    "help-page": Expected(),
    "columns": Expected(method="post", status=302),
    "views-save": Expected(method="post", sent={"name": "mine", "query": "state=NDLV"}, status=302),
    "views-remove": Expected(CONFIGURE, OF_AN_ADDRESS, "post", status=302),
    "triage-newer": Expected(sent={"since": "0"}),
    "triage-search": Expected(method="post", sent={"query": "q=payload:x"}, status=302),
    "triage-searching": Expected(PAYLOAD, OF_AN_ADDRESS),
    "triage-search-cancel": Expected(CONFIGURE, OF_AN_ADDRESS, "post", status=302),
    "triage-csv": Expected(EXPORT),
    "messages-ask": Expected(DECIDE, method="post", sent={"id": "{message}"}),
    "messages-decide": Expected(
        DECIDE, OF_AN_ADDRESS, "post", {"id": "{message}", "reason": "r", "origin": "message"}, 302
    ),
    "messages-one": Expected(READ, OF_AN_ADDRESS),
    "messages-related": Expected(READ, OF_AN_ADDRESS),
    "messages-payload": Expected(PAYLOAD, OF_AN_ADDRESS),
    "messages-edit": Expected(DECIDE, OF_AN_ADDRESS),
    "messages-reveal": Expected(REVEAL, OF_AN_ADDRESS, "post", {"reason": "r"}),
    "messages-version": Expected(PAYLOAD, OF_AN_ADDRESS),
    "messages-version-payload": Expected(PAYLOAD, OF_AN_ADDRESS),
    "messages-bystanders": Expected(READ, OF_AN_ADDRESS),
    # Pages that are views of Triage now.
    "messages": Expected(status=302),
    "failures": Expected(status=302),
    "groups": Expected(status=302),
    "blacklist": Expected(status=302),
    "blacklist-bystanders": Expected(status=302),
    "operations": Expected(),
    "operations-matching": Expected(),
    "comparisons-ask": Expected(READ, NOTHING, "post", sent={"query": "state=NDLV"}, status=302),
    "comparisons-one": Expected(PAYLOAD, OF_AN_ADDRESS),
    "comparisons-cancel": Expected(DECIDE, OF_AN_ADDRESS, "post", status=302),
    "operations-select": Expected(DECIDE, method="post", sent={"query": "state=NDLV"}, status=302),
    "operations-selection": Expected(READ, OF_AN_ADDRESS),
    "operations-selected": Expected(READ, OF_AN_ADDRESS),
    "operations-duration": Expected(READ, OF_AN_ADDRESS, "post"),
    "operations-one": Expected(READ, OF_AN_ADDRESS),
    "operations-csv": Expected(EXPORT, OF_AN_ADDRESS),
    "operations-members": Expected(READ, OF_AN_ADDRESS),
    "operations-change": Expected(DECIDE, OF_AN_ADDRESS, "post", {"reason": "r"}, 302),
    "operations-undo": Expected(DECIDE, OF_AN_ADDRESS, "post", {}, 302),
    "sign_offs": Expected(),
    "sign_offs-decide": Expected(SIGN_OFF, OF_AN_ADDRESS, "post", {"reason": "r", "decision": "consent"}, 302),
    "sign_offs-new": Expected(CONFIGURE),
    "sign_offs-one": Expected(CONFIGURE),
    "sign_offs-delete": Expected(CONFIGURE, method="post", status=302),
    "groups-ask-merge": Expected(DECIDE, OF_AN_ADDRESS, "post", {"value": "1"}),
    "groups-merge-ticked": Expected(
        DECIDE, OF_AN_ADDRESS, "post", {"into": "{group}", "group": "0", "reason": "r"}, 302
    ),
    "groups-alike": Expected(),
    "groups-alike-search": Expected(DECIDE, OF_AN_ADDRESS, "post", status=302),
    "groups-alike-cancel": Expected(DECIDE, OF_AN_ADDRESS, "post", status=302),
    "groups-alike-merge": Expected(DECIDE, OF_AN_ADDRESS, "post", status=302),
    "groups-alike-dismiss": Expected(DECIDE, OF_AN_ADDRESS, "post", status=302),
    "groups-alike-again": Expected(DECIDE, OF_AN_ADDRESS, "post", status=302),
    "groups-one": Expected(READ, OF_AN_ADDRESS),
    "groups-edit": Expected(DECIDE, OF_AN_ADDRESS),
    "groups-merge": Expected(DECIDE, OF_AN_ADDRESS, "post", {"group": "1", "reason": "r"}, 302),
    "groups-split": Expected(DECIDE, OF_AN_ADDRESS, "post", {"group": "1", "reason": "r"}, 302),
    "addresses": Expected(),
    "addresses-one": Expected(READ, OF_AN_ADDRESS, sent={"name": "orders.eu"}),
    "addresses-destination": Expected(
        CONFIGURE, method="post", sent={"name": "orders.eu", "destination": "shop", "version": "0"}, status=302
    ),
    "addresses-ask-resume": Expected(PAUSE, OF_AN_ADDRESS, "post", {"name": "orders.eu"}),
    "addresses-pause": Expected(PAUSE, OF_AN_ADDRESS, "post", {"name": "orders.eu", "reason": "r"}, 302),
    "addresses-resume": Expected(PAUSE, OF_AN_ADDRESS, "post", {"name": "orders.us", "reason": "r"}, 302),
    "destinations": Expected(),
    "destinations-one": Expected(READ, OF_AN_ADDRESS, sent={"name": "shop"}),
    "destinations-enable": Expected(PAUSE, OF_AN_ADDRESS, "post", {"name": "shop", "reason": "r"}, 302),
    "destinations-disable": Expected(PAUSE, OF_AN_ADDRESS, "post", {"name": "shop", "reason": "r"}, 302),
    "destinations-delete": Expected(CONFIGURE, method="post", sent={"name": "shop"}, status=409),
    "destinations-http": Expected(CONFIGURE, sent={"name": "shop"}),
    "destinations-handler": Expected(CONFIGURE),
    "destinations-broker": Expected(CONFIGURE),
    "policies": Expected(),
    "policies-new": Expected(CONFIGURE),
    "policies-simulator": Expected(),
    "policies-preview": Expected(method="post"),
    "policies-one": Expected(CONFIGURE),
    "policies-delete": Expected(CONFIGURE, method="post", status=302),
    "rules": Expected(),
    "rules-new": Expected(CONFIGURE),
    "rules-new-after": Expected(CONFIGURE),
    "rules-one": Expected(READ, OF_AN_ADDRESS),
    "rules-edit": Expected(CONFIGURE),
    "rules-enable": Expected(CONFIGURE, method="post", sent={"reason": "r", "without_dry_run": "true"}, status=302),
    "rules-disable": Expected(CONFIGURE, method="post", sent={"reason": "r"}, status=302),
    "rules-dry_run": Expected(CONFIGURE, method="post", status=302),
    "rules-move": Expected(CONFIGURE, method="post", sent={"position": "1"}, status=302),
    "rules-delete": Expected(CONFIGURE, method="post", status=302),
    "restart_jobs": Expected(),
    "restart_jobs-new": Expected(CONFIGURE),
    "restart_jobs-one": Expected(READ, OF_AN_ADDRESS),
    "restart_jobs-edit": Expected(CONFIGURE),
    "restart_jobs-preview": Expected(CONFIGURE, method="post", status=302),
    "restart_jobs-previewed": Expected(CONFIGURE),
    "restart_jobs-run": Expected(CONFIGURE, method="post", status=302),
    "restart_jobs-delete": Expected(CONFIGURE, method="post", status=302),
    "reports": Expected(EXPORT),
    "reports-new": Expected(EXPORT),
    "reports-summary": Expected(EXPORT),
    # For who has asked, and nobody else.
    "reports-one": Expected(EXPORT, OF_AN_ADDRESS, status=404),
    "reports-download": Expected(EXPORT, OF_AN_ADDRESS, status=404),
    "reports-cancel": Expected(EXPORT, OF_AN_ADDRESS, "post", status=404),
    "reports-run": Expected(EXPORT, OF_AN_ADDRESS, "post", status=302),
    "reports-remove": Expected(CONFIGURE, OF_AN_ADDRESS, "post", status=302),
    "masking": Expected(),
    "masking-new": Expected(CONFIGURE),
    "masking-rule": Expected(CONFIGURE),
    "masking-delete": Expected(CONFIGURE, method="post", status=302),
    "alerts": Expected(),
    "alerts-new": Expected(CONFIGURE),
    "alerts-rule": Expected(CONFIGURE),
    "alerts-test": Expected(CONFIGURE, method="post", status=302),
    "alerts-secret": Expected(CONFIGURE, method="post"),
    "alerts-delete": Expected(CONFIGURE, method="post", status=302),
    "alerts-delivery": Expected(READ, OF_AN_ADDRESS),
    "alerts-resend": Expected(CONFIGURE, method="post", status=302),
    "poison_list": Expected(),
    "poison_list-ask": Expected(DECIDE, OF_AN_ADDRESS, "post"),
    "poison_list-release": Expected(DECIDE, OF_AN_ADDRESS, "post", {"reason": "r"}, 302),
    "connect": Expected(CONFIGURE),
    # Nothing is typed, and nothing made.
    "connect-step": Expected(CONFIGURE, status=302),
    "connect-made": Expected(CONFIGURE, status=302),
    "sources": Expected(),
    "sources-one": Expected(READ, OF_AN_ADDRESS),
    # Now a guided way.
    "sources-new": Expected(CONFIGURE, status=302),
    "sources-directory": Expected(CONFIGURE, status=302),
    "sources-edit": Expected(CONFIGURE),
    "sources-check": Expected(INGEST, OF_AN_ADDRESS, "post", {"check": "preview"}, 302),
    # For who has asked, and nobody else.
    "sources-answer": Expected(READ, OF_AN_ADDRESS, status=404),
    "sources-now": Expected(INGEST, OF_AN_ADDRESS, "post", status=302),
    "sources-enable": Expected(PAUSE, OF_AN_ADDRESS, "post", {"reason": "r"}, 302),
    "sources-disable": Expected(PAUSE, OF_AN_ADDRESS, "post", {"reason": "r"}, 302),
    "sources-delete": Expected(CONFIGURE, method="post", status=302),
    "sources-rejected": Expected(PAYLOAD, OF_AN_ADDRESS),
    "sources-batch": Expected(PAYLOAD),
    "sources-line": Expected(PAYLOAD, OF_AN_ADDRESS),
    "jobs": Expected(),
    "jobs-one": Expected(READ, OF_AN_ADDRESS),
    "nodes": Expected(),
    "deployments": Expected(),
    "nodes-one": Expected(READ, OF_AN_ADDRESS),
    "nodes-read-only": Expected(CONFIGURE),
    "audit": Expected(),
    "people": Expected(CONFIGURE),
    "people-new": Expected(CONFIGURE),
    "people-one": Expected(CONFIGURE),
    "people-token": Expected(CONFIGURE, method="post", sent={"label": "t"}),
    "people-link": Expected(CONFIGURE, method="post"),
    "people-change": Expected(CONFIGURE, method="post", status=404),
    "you": Expected(),
    "you-end": Expected(READ, OF_AN_ADDRESS, "post", {"of": "none"}, 404),
    "archive": Expected(),
    "archive-messages": Expected(),
    "archive-restore": Expected(DECIDE, OF_AN_ADDRESS, "post", {"reason": "r"}, 302),  # it is live
    "archive-run": Expected(CONFIGURE, method="post", status=302),
    "archive-cancel": Expected(CONFIGURE, method="post", status=302),
    "archive-hold": Expected(CONFIGURE, method="post", sent={"q": "address:orders.#", "reason": "r"}, status=302),
    "archive-lift": Expected(CONFIGURE, method="post", sent={"reason": "r"}, status=302),
    "archive-erase-preview": Expected(CONFIGURE, method="post", sent={"q": "message:x"}),
    "archive-erase": Expected(CONFIGURE, method="post", sent={"q": "message:x", "reason": "r"}, status=302),
}


@dataclass(frozen=True)
class Everything:
    """One of everything, and everybody, who has logged in; the ids that routes need, and everybody's cookies."""

    rows: Snapshot
    ids: dict[str, int]
    cookies: dict[str, SimpleCookie]


@pytest.fixture(scope="module")
def everything(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Everything:
    """Make one of everything, have everybody log in, and take it away again."""
    with django_db_blocker.unblock():
        ids = make_everything()
        cookies = {who: log_in(who).cookies for who in EVERYBODY}
        return Everything(taken_away("pages"), ids, cookies)


@pytest.fixture
def objects(db: None, everything: Everything) -> dict[str, int]:
    """Put one of everything into the database; return the ids that routes need."""
    everything.rows.restore()
    return everything.ids


@pytest.fixture
def browser_of(objects: dict[str, int], page_settings: None, everything: Everything) -> Callable[[str], Client]:
    """Return the browser of each who has logged in."""

    def browser(who: str) -> Client:
        client = Client()
        client.cookies.load({name: morsel.value for name, morsel in everything.cookies[who].items()})
        return client

    return browser


def make_everything() -> dict[str, int]:
    """Make one of everything; return the ids that routes need."""
    make_orders_destination()
    message = dead_letter("orders.eu")
    dead_letter("orders.us")
    Address.objects.filter(name="orders.us").update(status="PAUSED")
    source = Source.objects.create(name="files", kind="directory", config={"path": "/nowhere"})
    crashed, _ = blacklist(dead := waiting("orders.eu").id)
    report(Report(source="orders.eu", bookmark="12|34|", why="ValueError"), principal=SYSTEM)
    restart_job = save_restart_job(
        "nightly",
        schedule="0 4 * * *",
        filter={"address": ["orders.#"]},
        action="approve",
        reason="r",
        is_enabled=True,
        principal=SYSTEM,
    )
    hook = ["https://hooks.example.org/alerts"]
    watch = AlertRuleFields(name="night watch", kinds=["new_group"], channel="webhook", to=hook, addresses=["orders.#"])
    alert_rule, _ = save_alert_rule(watch, principal=SYSTEM)
    record_alerts()
    AlertDelivery.objects.update(state="failed")
    fields = RuleFields(name="no orders", match={"address": "orders.#"}, action={"do": "reject"})
    broker = save_source(
        "dead-letters",
        kind="rabbitmq",
        config={"url": BROKER["url"], "queues": [BROKER["queues"]]},
        secrets={"username": "drain", "password": "planted-canary"},
        principal=SYSTEM,
    )
    selection = freeze(ids=[dead_letter("orders.eu").id], principal=SYSTEM)
    patched = dead_letter("orders.eu").id
    change = {"payload": "changed"}
    decide_on([patched], OperationAction.PATCH, params=change, reason="r", principal=SYSTEM, is_one=True)
    line = RejectedLine.objects.create(source=source, batch="b", line=1, code="invalid_json", detail="no", raw=b"{")
    group = FailureGroup.objects.earliest("id").id
    return {
        "run_id": request_archive_run(principal=SYSTEM).id,
        "hold_id": hold({"address": "orders.#"}, reason="r", principal=SYSTEM).id,
        "selection_id": selection,
        "comparison_id": request_comparison(selection_id=selection, principal=SYSTEM),
        "view_id": save_view("late", "address=orders.eu", is_shared=True, principal=SYSTEM),
        "search_id": request_search({"q": ["payload:x"]}, principal=SYSTEM),
        "operation_id": begin(selection, OperationAction.APPROVE, reason="r", principal=SYSTEM),
        "message_id": message.id,
        "patched_id": patched,
        "number": 2,
        "blacklisted_id": dead,
        "attempt": 1,
        "node_id": crashed.node_id,
        "entry_id": PoisonEntry.objects.get().id,
        "group_id": group,
        "proposal_id": make_proposal(group),
        "alike_search_id": request_alike_search(principal=SYSTEM),
        "policy_id": PolicyRow.objects.get().id,
        "restart_job_id": restart_job.id,
        "sign_off_rule_id": save_sign_off_rule("orders.#", None, above=1_000, principal=SYSTEM).id,
        "alert_rule_id": alert_rule.id,
        "report_id": request_report(asked_report("failures", format="csv"), principal=SYSTEM),
        "saved_report_id": save_report("weekly", asked_report("failures"), is_shared=True, principal=SYSTEM)[0],
        "alert_delivery_id": AlertDelivery.objects.earliest("id").id,
        "masking_rule_id": save_masking_rule(
            MaskingRuleFields(match="hidden.#", header="X-Customer", allowed_roles=list(Role)), principal=SYSTEM
        ).id,
        "rule_id": create_rule("before", fields, principal=SYSTEM).id,
        "source_id": source.id,
        "broker_id": broker.id,
        "check_id": request_source_check(broker.id, BrokerCheckPurpose.CONNECTION, principal=SYSTEM),
        "rejected_id": line.id,
        "job_id": LongRun.objects.create(kind="redeliver", requested_by="system").id,
    }


def _values(pattern: URLPattern, objects: dict[str, int]) -> dict[str, object]:
    values: dict[str, object] = {key: objects.get(key, SLUGS.get(key)) for key in pattern.pattern.converters}
    if "number" in values:
        values["message_id"] = objects["patched_id"]
    if pattern.name in ("sources-edit", "sources-check"):
        values["source_id"] = objects["broker_id"]
    values |= {"help-page": {"folder": "use", "name": "search"}, "columns": {"name": "messages"}}.get(
        pattern.name or "", {}
    )
    # A dead letter that was handed in has crashed nothing here.
    return values | ({"message_id": objects["blacklisted_id"]} if "attempt" in values else {})


def _answer(client: Client, name: str, objects: dict[str, int]) -> int:
    expected = ROUTES[name]
    pattern = next(found for found in page_routes() if found.name == name)
    values = _values(pattern, objects)
    ids = {"message": objects["message_id"], "group": objects["group_id"]}
    sent = {key: text.format(**ids) for key, text in expected.sent.items()}
    return int(getattr(client, expected.method)(reverse(name, kwargs=values), sent).status_code)


def test_every_route_has_an_expectation() -> None:
    assert {pattern.name for pattern in page_routes()} == set(ROUTES)


@pytest.mark.parametrize("name", ROUTES)
def test_a_page_answers_each_person_as_expected(
    name: str, objects: dict[str, int], browser_of: Callable[[str], Client]
) -> None:
    found = {}
    for who in EVERYBODY:
        client = browser_of(who)
        with transaction.atomic():
            found[who] = _answer(client, name, objects)
            transaction.set_rollback(True)
    assert found == _expected_answers(ROUTES[name])


def _expected_answers(expected: Expected) -> dict[str, int]:
    """Return the status for each person: the anonymous must log in, and an account without a role sees nothing."""
    statuses = {"anonymous": 302, "roleless": 403}
    for role, permissions in ALLOWED.items():
        statuses[role] = expected.status if expected.permission in permissions else 403
    if expected.permission is SIGN_OFF:
        return statuses | {"outsider": 403}
    if expected.scope in OUTSIDE:
        return statuses | {"outsider": OUTSIDE[expected.scope]}
    return statuses | {"outsider": 403 if expected.permission is CONFIGURE else expected.status}


@pytest.mark.parametrize(
    "name",
    [
        "destinations-handler", "sources-new", "sources-directory", "sources-edit", "restart_jobs-new",
        "restart_jobs-edit", "connect",
    ],
)  # fmt: skip
def test_a_limited_administrator_gets_no_form_that_cannot_be_sent(
    name: str, objects: dict[str, int], browser_of: Callable[[str], Client]
) -> None:
    client = browser_of("admin")
    Access.objects.filter(user__username="admin").update(address_patterns=["orders.#"])
    assert _answer(client, name, objects) == 403


@pytest.mark.parametrize(
    "name", ["destinations", "policies", "addresses", "rules", "overview", "triage", "groups-alike"]
)
def test_a_list_that_hides_something_does_not_say_that_there_is_nothing(
    name: str, objects: dict[str, int], browser_of: Callable[[str], Client]
) -> None:
    text = browser_of("outsider").get(reverse(name)).content.decode()
    assert "Nothing in your scope" in text
    assert " yet</h2>" not in text


def test_the_audit_log_shows_a_limited_account_its_own_acts(
    objects: dict[str, int], browser_of: Callable[[str], Client]
) -> None:
    browser_of("admin")
    page = browser_of("outsider").get(reverse("audit"))
    assert {(row.actor, row.action) for row in page.context["rows"]} == {("outsider", "user.logged_in")}


def test_a_refusal_names_the_permission_in_words(browser_of: Callable[[str], Client]) -> None:
    text = browser_of("viewer").get("/policies/new/").content.decode()
    assert "This needs the permission configure, which viewer does not have." in text
    assert "Permission." not in text


def test_lists_of_an_outsider_name_nothing_of_others(
    objects: dict[str, int], browser_of: Callable[[str], Client]
) -> None:
    client = browser_of("outsider")
    for name in (
        "overview",
        "triage",
        "triage-facets",
        "palette",
        "triage-candidates",
        "addresses",
        "destinations",
        "policies",
        "poison_list",
        "restart_jobs",
        "sign_offs",
        "alerts",
        "reports",
        "reports-summary",
        "rules",
        "nodes",
        "audit",
    ):
        text = client.get(reverse(name)).content.decode()
        assert "orders" not in text.replace("orders.#", "").replace("orders.*", "").replace("orders.eu.created", ""), (
            name
        )
        assert "com.example.Boom" not in text, name
    csv = b"".join(client.get(reverse("triage-csv"))).decode()
    assert len(csv.splitlines()) == 1


def test_a_secret_of_a_destination_is_on_no_page(objects: dict[str, int], browser_of: Callable[[str], Client]) -> None:
    client = browser_of("admin")
    for name, expected in ROUTES.items():
        if expected.method == "get":
            pattern = next(found for found in page_routes() if found.name == name)
            values = _values(pattern, objects)
            answer = client.get(reverse(name, kwargs=values), expected.sent)
            body = b"".join(answer) if answer.streaming else answer.content
            assert b"planted-canary" not in body, name


def test_a_reader_is_offered_no_decision(objects: dict[str, int], browser_of: Callable[[str], Client]) -> None:
    viewer = browser_of("viewer").get(reverse("messages-one", args=[objects["message_id"]])).content
    operator_browser = browser_of("operator").get(reverse("messages-one", args=[objects["message_id"]])).content
    for page in (operator_browser, viewer):
        assert b"Mark FAIL\xe2\x80\xa6" in page
    assert b'title="For the role operator or reviewer or admin"' in viewer
    assert b"<fieldset disabled>" not in operator_browser
    assert viewer.count(b'data-decision="') == viewer.partition(b"<fieldset disabled>")[2].count(b'data-decision="') > 0


def test_policies_of_a_wider_pattern_are_not_shown_to_the_limited(browser_of: Callable[[str], Client]) -> None:
    save_policy("elsewhere.eu", preset=None, settings={"crash_limit": 7}, destination=None, principal=SYSTEM)
    text = browser_of("outsider").get(reverse("policies")).content.decode()
    assert "crash_limit=7" in text
    assert "shop" not in text
