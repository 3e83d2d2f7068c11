"""The likely causes of a failure group, what its failures have in common, and its incident brief."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.deployments.commands import report_deployment
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.store.models.access import PayloadRead
from poisonadmin.store.models.attempt import FailureGroup
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter, html_of
from tests.masking.planted import mask

pytestmark = pytest.mark.django_db
Browsers = Callable[[str], Client]


def failed(error: str = "app.ValidationError", address: str = "orders.eu", **payload: object) -> Message:
    letter = {"exception_class": error, "exception_message": "gone *bold*", "stack": f"{error}\n\tat app.A.a(A.java:1)"}
    return Message.objects.get(id=dead_letter(address, dead_letter=letter, payload=payload or {"n": 1}).id)


def test_the_brief_says_what_is_known_and_what_was_tried(browser_of: Browsers) -> None:
    messages = [failed() for _ in range(3)]
    group = FailureGroup.objects.get()
    browser = browser_of("operator")
    annotate(group.id, {"owner": "operator", "note": "<b>known</b>"}, principal=SYSTEM)
    decide_on([messages[0].id], OperationAction.FAIL, reason="no *use*", principal=SYSTEM)
    answered = browser.get(f"/api/v1/groups/{group.id}/brief/")
    assert answered["Content-Type"] == "text/markdown; charset=utf-8"
    brief = answered.content.decode()
    for part in (
        "(content): The consumer refuses the content of the messages. 3 of the latest 3 messages: [#",
        "- **How many**: 3 failures, 3 in 24 hours; messages: 2 NDLV, 1 FAIL",
        "- **Whose**: operator",
        "- **Where**: orders.eu",
        "- **In common**: address orders.eu, 3 of 3",
        f"/operations/{Operation.objects.get().id}/), completed, by system: no \\*use\\*. Ledger: 1 changed",
        "- **Note**: \\<b\\>known\\</b\\>",
        f"[failure group {group.id}](http://testserver/groups/{group.id}/)",
    ):
        assert part in brief, brief


def test_where_dead_letters_come_from_is_what_they_have_in_common(browser_of: Browsers) -> None:
    for n in range(5):
        dead_letter("dead", dead_letter={"original_address": "orders.eu" if n else "dead"})
    brief = browser_of("operator").get(f"/api/v1/groups/{FailureGroup.objects.get().id}/brief/").content.decode()
    assert "- **In common**: address dead, 5 of 5" in brief
    assert "- **In common**: original address orders.eu, 4 of 5" in brief


def test_a_limited_account_gets_a_brief_of_what_it_sees(browser_of: Browsers) -> None:
    mine, other = failed(address="elsewhere.eu"), failed()
    decide_on([other.id], OperationAction.FAIL, reason="secret", principal=SYSTEM)
    page = browser_of("outsider").get(f"/api/v1/groups/{mine.group_id}/brief/").content.decode()
    assert "1 failure, 1 in 24 hours" in page
    assert "secret" not in page
    assert "orders.eu" not in page


def test_the_page_shows_the_cause_with_its_messages_and_marks_what_payloads_share(operator_browser: Client) -> None:
    latest = [failed(currency="XXX", total=number) for number in (1, 2, 3)][-1]
    page = " ".join(html_of(operator_browser.get(f"/groups/{latest.group_id}/")).split())
    assert "The consumer refuses the content of the messages." in page
    assert "3 of the latest 3 messages:" in page
    shared, own = page.index('<div class="leaf shared"><span class="key wild">currency</span>'), page.index(">total<")
    assert page[own - 40 : own].count("shared") == 0
    assert shared < own


def test_the_payload_that_is_shown_is_named_and_large_ones_are_not_read(operator_browser: Client) -> None:
    small = [failed(currency="XXX", total=number) for number in (1, 2)][-1]
    large = failed(currency="XXX", note="x" * 20_000)
    page = html_of(operator_browser.get(f"/groups/{small.group_id}/"))
    assert f"The payload of message #{small.id};" in page
    read = set(PayloadRead.objects.values_list("object_id", flat=True))
    assert (small.id in read, large.id in read) == (True, False)


def test_a_version_is_blamed_where_its_deployment_came_before_the_first_failure(operator_browser: Client) -> None:
    message = failed("app.Odd")
    FailureGroup.objects.update(first_at=timezone.now() - timedelta(hours=1))
    report_deployment("orders.eu", "2.4", principal=SYSTEM, at=timezone.now() - timedelta(hours=2))
    page = f"/groups/{message.group_id}/"
    assert "It began with version" not in html_of(operator_browser.get(page))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE attempt SET consumer_version = '2.4'")
        cursor.execute(
            "INSERT INTO group_version (group_id, address_id, consumer_version, first_at, last_at, failures)"
            " SELECT %s, address_id, '2.4', now(), now(), 1 FROM message",
            [message.group_id],
        )
    assert "It began with version 2.4, and no other version fails so." in html_of(operator_browser.get(page))


def test_what_somebody_has_approved_does_not_pass_by_itself(operator_browser: Client) -> None:
    itself, group = "It passes by itself", failed("app.Odd").group_id
    Message.objects.update(state="DLVD")
    assert itself in html_of(operator_browser.get(f"/groups/{group}/"))
    Message.objects.update(state="NDLV")
    make_orders_destination()
    decide_on(list(Message.objects.values_list("id", flat=True)), OperationAction.APPROVE, reason="r", principal=SYSTEM)
    Message.objects.update(state="DLVD")
    assert itself not in html_of(operator_browser.get(f"/groups/{group}/"))


def test_masked_values_stay_masked_and_are_compared_all_the_same(browser_of: Browsers) -> None:
    mask("orders.#", json_path="$.currency")
    latest = [failed(currency="CANARY", total=number) for number in (1, 2)][-1]
    for_viewer, page = (
        " ".join(html_of(browser_of(role).get(f"/groups/{latest.group_id}/")).split())
        for role in ("viewer", "operator")
    )
    assert "CANARY" not in for_viewer + page
    assert '<div class="leaf shared"><span class="key wild">currency</span>: <span class="string wild">&quot;[m' in page
    assert "leaf" not in for_viewer
    assert 'title="For the role operator or ' in for_viewer
