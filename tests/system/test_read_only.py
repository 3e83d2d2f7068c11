"""While the installation is read-only nothing is changed by anybody, and everything can be read."""

import json
from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.queries.read_only import ReadOnly
from poisonadmin.core.queries.rows import database_time
from poisonadmin.intake.commands.batch import SLICE_ROWS, accept_stream
from poisonadmin.messages.domain.states import State
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.read_only import ReadOnlyMode
from poisonadmin.store.models.run import LongRun
from poisonadmin.system.commands.read_only import switch_read_only
from tests.fixtures.api import Caller
from tests.fixtures.pages import waiting
from workers.celery_app import app

pytestmark = pytest.mark.usefixtures("switched_off_afterwards")


@pytest.fixture
def switched_off_afterwards(transactional_db: None) -> Iterator[None]:
    """Have this process look anew in the next test."""
    yield
    ReadOnlyMode.objects.all().delete()


def test_every_change_is_refused_with_the_reason_and_everything_is_read(
    admin: Caller, operator: Caller, viewer: Caller
) -> None:
    switched = admin.ask("PUT", "read-only/", {"reason": "the database moves"})
    assert (switched.status_code, switched.json()["is_on"]) == (200, True)
    body = {"address": "orders.eu", "payload": "x"}
    for answer in (
        admin.post("messages/", body),
        operator.post("messages/", body),
        admin.post("operations/", {"action": "approve", "filter": {"state": "NDLV"}, "reason": "x"}),
        admin.ask("PUT", "destinations/shop/", {"kind": "http", "config": {"url": "https://shop.example.org/"}}),
        admin.ask("DELETE", "views/1/"),
        admin.ask("PATCH", "accounts/ada/", {"role": "viewer"}),
    ):
        problem = answer.json()
        assert (answer.status_code, problem["code"], answer["Retry-After"]) == (503, "read_only", "2"), problem
        assert "the database moves" in problem["detail"]
    assert not Message.objects.exists()
    assert admin.get("messages/").status_code == 200
    assert viewer.get("read-only/").json()["reason"] == "the database moves"
    assert admin.ask("DELETE", "read-only/").json()["is_on"] is False
    assert admin.post("messages/", body).status_code == 201
    actions = Audit.objects.filter(action__startswith="read_only.").order_by("id").values_list("action", flat=True)
    assert list(actions) == ["read_only.switched_on", "read_only.switched_off"]


def test_a_batch_that_has_begun_takes_nothing_more_in(transactional_db: None) -> None:
    def lines() -> Iterator[bytes]:
        for n in range(2 * SLICE_ROWS):
            if n == SLICE_ROWS + 1:
                switch_read_only("the database moves", principal=SYSTEM)
            yield json.dumps({"address": "orders.eu", "message_id": f"m{n}", "payload": "x"}).encode() + b"\n"

    with pytest.raises(ReadOnly, match="the database moves"):
        accept_stream(lines(), principal=SYSTEM)
    assert Message.objects.count() == SLICE_ROWS


def test_it_is_for_administrators_of_every_address(operator: Caller, outsider: Caller) -> None:
    for who in (operator, outsider):
        assert who.ask("PUT", "read-only/", {"reason": "x"}).status_code == 403
        assert who.ask("DELETE", "read-only/").status_code == 403
    assert not ReadOnlyMode.objects.exists()


def test_the_page_switches_and_every_page_says_so(browser_of: Callable[[str], Client]) -> None:
    admin_page = browser_of("admin")
    assert b"Say why" in admin_page.post("/read-only/", {"switch": "on", "reason": " "}).content
    assert not ReadOnlyMode.objects.exists()
    assert admin_page.post("/read-only/", {"switch": "on", "reason": "the database moves"}).status_code == 302
    assert b"the database moves" in admin_page.get("/").content
    refused = admin_page.post("/views/save/", {"name": "mine", "query": "state=FAIL"})
    assert refused.status_code == 503
    assert b"the database moves" in refused.content
    assert admin_page.post("/read-only/", {"switch": "off"}).status_code == 302
    assert b"the database moves" not in admin_page.get("/").content


def test_ticks_end_what_was_begun_and_begin_nothing(transactional_db: None) -> None:
    overdue = Message.objects.filter(state=State.TBDL)
    waiting()
    overdue.update(expires_at=database_time())
    switch_read_only("the database moves", principal=SYSTEM)
    app.loader.import_task_module("workers.tasks")
    for name in ("operation_tick", "archive_tick", "restart_tick", "housekeeping_tick", "message_tick"):
        app.tasks[f"workers.tasks.{name}"]()
    assert overdue.count() == 1
    assert not LongRun.objects.exists()
    switch_read_only(None, principal=SYSTEM)
    for name in ("operation_tick", "archive_tick"):
        app.tasks[f"workers.tasks.{name}"]()
    assert overdue.count() == 0
    assert LongRun.objects.exists()


def test_the_command_says_which_it_is(transactional_db: None) -> None:
    def ran(*arguments: str) -> str:
        out = StringIO()
        call_command("read_only", *arguments, stdout=out)
        return out.getvalue().strip()

    assert ran() == "It takes changes."
    with pytest.raises(CommandError, match="Give a reason"):
        ran("on")
    assert "UTC: the database moves" in ran("on", "the database moves")
    assert ran("off") == "It takes changes."
