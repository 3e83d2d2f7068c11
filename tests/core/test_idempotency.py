"""An Idempotency-Key: carried out once, answered alike."""

import json
import threading
from typing import Any

import pytest
from django.db import connection

from poisonadmin.core.commands import idempotency
from poisonadmin.core.commands.idempotency import IdempotencyKeyInFlight, StoredAnswer
from poisonadmin.intake.commands import accept
from poisonadmin.store.models.access import IdempotencyKey
from poisonadmin.store.models.message import Message
from tests.fixtures.api import Caller, caller_of, take_dead

ENVELOPE = {"address": "orders.eu", "payload": "x"}
NDJSON = "application/x-ndjson"


def test_the_same_request_again_gets_the_same_answer_and_is_not_carried_out(admin: Caller) -> None:
    first = admin.post("messages/", ENVELOPE, Idempotency_Key="k")
    again = admin.post("messages/", ENVELOPE, Idempotency_Key="k")
    assert (first.status_code, first.content, first["Location"]) == (
        again.status_code,
        again.content,
        again["Location"],
    )
    assert "Idempotent-Replayed" not in first
    assert again["Idempotent-Replayed"] == "true"
    assert Message.objects.count() == 1


def test_an_answer_that_an_earlier_version_has_kept_is_not_repeated_and_the_request_neither(admin: Caller) -> None:
    admin.post("messages/", ENVELOPE, Idempotency_Key="k")
    (kept,) = IdempotencyKey.objects.all()
    head, _, body = bytes(kept.response).partition(b"\n")
    fields = json.loads(head)
    del fields["rights"]
    IdempotencyKey.objects.update(response=json.dumps(fields).encode() + b"\n" + body)
    again = admin.post("messages/", ENVELOPE, Idempotency_Key="k")
    assert (again.status_code, again.json()["code"], Message.objects.count()) == (409, "answer_withheld", 1)


def test_without_a_key_every_request_counts(admin: Caller) -> None:
    for _ in range(2):
        admin.post("messages/", ENVELOPE)
    assert Message.objects.count() == 2


def test_a_key_with_another_body_or_path_is_refused(admin: Caller) -> None:
    admin.post("messages/", ENVELOPE, Idempotency_Key="k")
    for path, body in (("messages/", {**ENVELOPE, "payload": "y"}), (f"messages/{take_dead()}/fail/", {"reason": "r"})):
        answer = admin.post(path, body, Idempotency_Key="k")
        assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


def test_keys_belong_to_whoever_sends_them(admin: Caller, operator: Caller) -> None:
    admin.post("messages/", ENVELOPE, Idempotency_Key="k")
    operator.post("messages/", ENVELOPE, Idempotency_Key="k")
    assert Message.objects.count() == 2


def test_a_refusal_is_remembered_too(admin: Caller) -> None:
    message_id = take_dead()
    first = admin.post(f"messages/{message_id}/approve/", {"reason": "r"}, Idempotency_Key="k")
    again = admin.post(f"messages/{message_id}/approve/", {"reason": "r"}, Idempotency_Key="k")
    assert (first.status_code, again.status_code, again["Idempotent-Replayed"]) == (409, 409, "true")
    assert again["Content-Type"] == "application/problem+json"


def test_a_failure_of_ours_is_not_remembered(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(accept, "accept", lambda *_, **__: 1 / 0)
        assert admin.post("messages/", ENVELOPE, Idempotency_Key="k").status_code == 500
    assert admin.post("messages/", ENVELOPE, Idempotency_Key="k").status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\tb"])
def test_a_key_that_is_none_is_refused(key: str, admin: Caller) -> None:
    answer = admin.post("messages/", ENVELOPE, Idempotency_Key=key)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")


def test_a_batch_is_taken_in_once(admin: Caller) -> None:
    lines = b'{"address": "a", "payload": "1"}\n{"address": "a", "payload": "2"}\n{'
    first = admin.post("messages/batch/", lines, Idempotency_Key="k", Content_Type=NDJSON)
    again = admin.post("messages/batch/", lines, Idempotency_Key="k", Content_Type=NDJSON)
    assert (first.status_code, first.json()) == (202, again.json())
    assert Message.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_request_in_flight_is_not_begun_again() -> None:
    seen: list[Any] = []

    def act() -> StoredAnswer:
        worker = threading.Thread(target=other)
        worker.start()
        worker.join()
        return StoredAnswer(200, "application/json", b"{}")

    def other() -> None:
        try:
            idempotency.once(
                "me", "k", "digest", lambda: StoredAnswer(200, "x", b""), rights="r", in_one_transaction=True
            )
        except IdempotencyKeyInFlight as error:
            seen.append(error.status)
        finally:
            connection.close()

    idempotency.once("me", "k", "digest", act, rights="r", in_one_transaction=True)
    assert seen == [409]


@pytest.mark.django_db(transaction=True)
def test_what_was_done_and_the_memory_of_it_are_committed_together() -> None:
    caller = caller_of("admin")

    def dies() -> StoredAnswer:
        intake_answer = caller.post("messages/", ENVELOPE)
        assert intake_answer.status_code == 201
        raise SystemExit

    with pytest.raises(SystemExit):
        idempotency.once("me", "k", "digest", dies, rights="r", in_one_transaction=True)
    assert Message.objects.count() == 0
    answer, is_repeated = idempotency.once(
        "me", "k", "digest", lambda: StoredAnswer(200, "x", b""), rights="r", in_one_transaction=True
    )
    assert (answer.status, is_repeated) == (200, False)
