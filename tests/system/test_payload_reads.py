"""Who reads a payload is in the audit log, whichever way; who reads all else is not."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from poisonadmin.core.commands.audit import fold_payload_reads, note_payload_reads
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.access import Audit, PayloadRead
from poisonadmin.store.models.intake import RejectedLine
from poisonadmin.system.commands.audit_seals import seal_audit
from poisonadmin.system.queries.audit import verify_audit
from tests.fixtures.api import Caller, take
from tests.fixtures.delivery import make_orders_destination
from tests.fixtures.pages import dead_letter

pytestmark = pytest.mark.django_db
CANARY = "canary-4711"
PAYLOAD = {"customer": CANARY, "amount": 4}
Reads = set[tuple[str, str, int]]


def reads() -> Reads:
    """Return who has read what, and forget it."""
    found = set(PayloadRead.objects.values_list("actor", "object_type", "object_id"))
    PayloadRead.objects.all().delete()
    return found


def content_of(answer: Any) -> str:
    return (b"".join(answer) if answer.streaming else answer.content).decode(errors="replace")


@pytest.fixture
def letter() -> int:
    make_orders_destination()
    return dead_letter(payload=PAYLOAD).id


@pytest.fixture
def line() -> int:
    return RejectedLine.objects.create(batch="batch:1", line=3, code="c", detail="x", raw=CANARY.encode()).id


def edited(message_id: int) -> int:
    """Change the payload, so that there are two versions."""
    decide_on(
        [message_id],
        OperationAction.PATCH,
        params={"payload": f'["{CANARY}"]'},
        reason="r",
        principal=SYSTEM,
        is_one=True,
    )
    return message_id


def test_every_page_and_download_of_a_payload_is_noted(operator_browser: Client, letter: int, line: int) -> None:
    of_message, of_line = {("operator", "message", letter)}, {("operator", "rejected_line", line)}
    shown: dict[str, Reads] = {
        f"/messages/{letter}/": of_message,
        f"/messages/{letter}/?view=hex": of_message,
        f"/messages/{letter}/payload/": of_message,
        f"/messages/{letter}/edit/": of_message,
        f"/sources/rejected/{line}/": of_line,
        "/sources/batch/rejected/": of_line,
    }
    for path, expected in shown.items():
        answer = operator_browser.get(path)
        assert answer.status_code == 200, path
        assert CANARY in content_of(answer) or "hex" in path, path
        assert reads() == expected, path
    operator_browser.post(f"/messages/{letter}/edit/", {"payload": f'["{CANARY}"]', "reason": "r"})
    assert reads() == of_message
    edited(letter)
    for path in (f"/messages/{letter}/versions/2/", f"/messages/{letter}/versions/1/payload/"):
        assert CANARY in content_of(operator_browser.get(path))
        assert reads() == of_message, path


def test_every_endpoint_that_gives_a_payload_is_noted(admin: Caller, letter: int, line: int) -> None:
    paths: dict[str, Reads] = {
        f"messages/{letter}/payload/": {("admin via test", "message", letter)},
        f"messages/{letter}/versions/1/payload/": {("admin via test", "message", letter)},
        "sources/rejected/": {("admin via test", "rejected_line", line)},
        f"sources/rejected/{line}/raw/": {("admin via test", "rejected_line", line)},
    }
    for path, expected in paths.items():
        assert CANARY in content_of(admin.get(path))
        assert reads() == expected, path


def test_the_samples_of_a_preview_are_noted(admin: Caller, operator_browser: Client) -> None:
    make_orders_destination()
    ids = [dead_letter(payload=PAYLOAD).id for _ in range(3)]
    selection = freeze(ids=ids, principal=SYSTEM)
    patch = [{"op": "replace", "path": "/amount", "value": 5}]
    body = {"action": "patch", "params": {"json_patch": patch}}
    answer = admin.post(f"selections/{selection}/preview/", body)
    assert CANARY in content_of(answer)
    assert reads() == {("admin via test", "message", one) for one in ids}
    fields = {"json_patch": json.dumps(patch)}
    assert CANARY in content_of(operator_browser.post(f"/operations/selections/{selection}/?action=patch", fields))
    assert reads() == {("operator", "message", one) for one in ids}


def test_what_shows_no_payload_is_not_noted(admin: Caller, viewer: Caller, outsider: Caller, letter: int) -> None:
    silent = [
        "messages/",
        f"messages/{letter}/",
        *(f"messages/{letter}/{of}/" for of in ("attempts", "history", "hops")),
    ]
    for path in (*silent, f"messages/{letter}/versions/", "groups/", "audit/"):
        assert CANARY not in content_of(admin.get(path))
    for path in (f"messages/{letter}/payload/", f"messages/{letter}/versions/1/payload/", "sources/rejected/9/raw/"):
        assert outsider.get(path).status_code == 404
    assert reads() == set()


def test_the_reads_of_a_minute_are_one_entry_of_each_reader_and_come_when_it_is_over() -> None:
    ids = [take(payload=PAYLOAD) for _ in range(3)]
    pat = replace(SYSTEM, name="pat")
    for _ in range(20):
        note_payload_reads(pat, ids)
    note_payload_reads(SYSTEM, ids[:1])
    note_payload_reads(SYSTEM, [7], "rejected_line")
    PayloadRead.objects.update(at=F("at") - timedelta(minutes=5))
    note_payload_reads(pat, ids[:1])
    PayloadRead.objects.filter(id=PayloadRead.objects.latest("id").id).update(at=F("at") - timedelta(minutes=3))
    note_payload_reads(pat, ids[1:2])
    fold_payload_reads()
    found = Audit.objects.filter(action="payload.read").values_list("actor", "object_type", "object_id", "details")
    assert sorted(found, key=str) == [
        ("pat", "message", str(ids[0]), {"ids": ids[:1]}),
        ("pat", "messages", "3", {"ids": ids}),
        ("system", "message", str(ids[0]), {"ids": ids[:1]}),
        ("system", "rejected_line", "7", {"ids": [7]}),
    ]
    assert [one.object_id for one in PayloadRead.objects.all()] == ids[1:2], "this minute is not over"
    fold_payload_reads()
    assert Audit.objects.filter(action="payload.read").count() == 4
    seal_audit()
    assert not verify_audit(None).findings


def test_a_reader_finds_the_entry_on_the_page_of_the_audit_log(
    browser_of: Callable[[str], Client], letter: int
) -> None:
    browser_of("operator").get(f"/messages/{letter}/")
    PayloadRead.objects.update(at=F("at") - timedelta(minutes=5))
    fold_payload_reads()
    page = browser_of("admin").get("/audit/", {"action": "payload.read", "object_id": letter}).content.decode()
    assert "payload.read" in page
    assert f"/messages/{letter}/" in page
