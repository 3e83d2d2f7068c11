"""Search words name people: the audit log, from which nothing is removed, has only the fields that they ask about."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.archive.commands.erasing import request_erasure
from poisonadmin.archive.commands.holds import hold
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.restart_jobs.commands import save_restart_job
from poisonadmin.reports.commands.requests import request_report, rows_now
from poisonadmin.reports.commands.saved import save_report
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.deep.commands.requests import request_search
from poisonadmin.search.domain.filters import fields_of
from poisonadmin.search.views.commands import save_view
from poisonadmin.store.models.access import Audit
from tests.fixtures.api import Caller, take_dead

pytestmark = pytest.mark.django_db
CANARY = "ann-miller"
FILTER = {"q": [f"{CANARY} header.customer:{CANARY}"], "key.customer": [CANARY], "state": ["NDLV"]}
DEEP = {"q": [f'payload:"{CANARY}" payload.$.name:{CANARY}'], "header.customer": [CANARY]}
FIELDS = ["header.customer", "key.customer", "state", "text"]


def alert(search: str) -> Any:
    hook = ["https://hooks.example.org/alerts"]
    return save_alert_rule(
        AlertRuleFields(name="n", kinds=["oldest_undecided"], channel="webhook", to=hook, search=search),
        principal=SYSTEM,
    )


ASKING: dict[str, Callable[[], Any]] = {
    "search": lambda: request_search(DEEP, principal=SYSTEM),
    "report": lambda: request_report(asked_report("failures", format="csv", filter=FILTER), principal=SYSTEM),
    "rows": lambda: rows_now(asked_report("failures", filter=FILTER), principal=SYSTEM),
    "saved report": lambda: save_report("w", asked_report("failures", filter=FILTER), principal=SYSTEM),
    "view": lambda: save_view("v", f"key.customer={CANARY}&q={CANARY}", is_shared=False, principal=SYSTEM),
    "legal hold": lambda: hold(FILTER, reason="r", principal=SYSTEM),
    "erasure": lambda: request_erasure({"key.customer": [CANARY]}, reason="r", principal=SYSTEM),
    "restart job": lambda: save_restart_job("j", filter=FILTER, action="approve", reason="r", principal=SYSTEM),
    "alert rule": lambda: alert(f"header.customer:{CANARY}"),
    "selection": lambda: freeze(FILTER, principal=SYSTEM),
}


def audited() -> str:
    return json.dumps([[row.object_id, row.note, row.details] for row in Audit.objects.all()])


@pytest.mark.parametrize("kind", ASKING)
def test_no_word_of_a_search_is_in_the_audit_log(kind: str) -> None:
    ASKING[kind]()
    assert Audit.objects.exists() or kind == "selection"
    assert CANARY not in audited()
    if kind not in ("erasure", "selection"):
        assert "customer" in audited(), "its fields are"


@pytest.mark.parametrize("kind", ["saved report", "view", "restart job", "alert rule"])
def test_a_change_of_the_words_is_seen_though_not_what_they_were(kind: str) -> None:
    ASKING[kind]()
    changed: dict[str, Callable[[], Any]] = {
        "saved report": lambda: save_report(
            "w", asked_report("failures", filter={"state": ["FAIL"]}), principal=SYSTEM
        ),
        "view": lambda: save_view("v", "state=FAIL", is_shared=False, principal=SYSTEM),
        "restart job": lambda: save_restart_job(
            "j", filter={"state": ["NDLV"], "q": ["other"]}, action="approve", reason="r", principal=SYSTEM
        ),
        "alert rule": lambda: alert("header.customer:other"),
    }
    changed[kind]()
    [_, row] = Audit.objects.filter(action__endswith=".saved").order_by("id")
    assert "customer" in json.dumps(row.details["was"])
    assert CANARY not in audited()


def test_what_is_taken_out_as_csv_is_there_by_its_fields(operator_browser: Client, admin: Caller) -> None:
    take_dead()
    b"".join(operator_browser.get("/triage/messages.csv", {"q": f"header.customer:{CANARY} {CANARY}", "state": "NDLV"}))
    assert Audit.objects.get(action="report.exported").details["filter"] == ["header.customer", "state", "text"]
    admin.post("searches/", {"filter": DEEP})
    assert CANARY not in audited()


def test_the_fields_of_a_filter_are_named_once() -> None:
    assert fields_of(FILTER) == FIELDS
    assert fields_of({}) == []
