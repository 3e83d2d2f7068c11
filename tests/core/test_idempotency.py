"""An Idempotency-Key: carried out once, answered alike."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from poisonadmin.core.commands import idempotency
from poisonadmin.core.commands.idempotency import IdempotencyKeyInFlight, Renew, StoredAnswer
from poisonadmin.intake.commands import accept, batch
from poisonadmin.store.models.access import IdempotencyKey
from poisonadmin.store.models.message import Envelope, Message
from tests.fixtures.api import Caller, caller_of, take_dead

ENVELOPE = {"address": "orders.eu", "payload": "x"}
NDJSON = "application/x-ndjson"
DONE = StoredAnswer(200, "x", b"")


def once(act: Callable[[Renew], StoredAnswer], *, in_one_transaction: bool = False) -> tuple[StoredAnswer, bool]:
    """Carry out the request of a test; in several transactions, where nothing else is said."""
    return idempotency.once("me", "k", "digest", act, rights="r", in_one_transaction=in_one_transaction)


def stand_still() -> None:
    """Let the lease of every request that is under way run out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE idempotency_key SET created_at = created_at - %s * interval '1 s'", [idempotency.LEASE_SECONDS]
        )


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
@pytest.mark.parametrize("in_one_transaction", [True, False])
def test_a_request_in_flight_is_not_begun_again(in_one_transaction: bool) -> None:
    seen: list[Any] = []

    def act(_: Renew) -> StoredAnswer:
        worker = threading.Thread(target=other)
        worker.start()
        worker.join()
        return StoredAnswer(200, "application/json", b"{}")

    def other() -> None:
        try:
            once(lambda _: DONE, in_one_transaction=in_one_transaction)
        except IdempotencyKeyInFlight as error:
            seen.append(error.status)
        finally:
            connection.close()

    once(act, in_one_transaction=in_one_transaction)
    assert seen == [409]
    assert once(lambda _: DONE, in_one_transaction=in_one_transaction)[1]


@pytest.mark.django_db(transaction=True)
def test_what_was_done_and_the_memory_of_it_are_committed_together() -> None:
    caller = caller_of("admin")

    def dies(_: Renew) -> StoredAnswer:
        intake_answer = caller.post("messages/", ENVELOPE)
        assert intake_answer.status_code == 201
        raise SystemExit

    with pytest.raises(SystemExit):
        once(dies, in_one_transaction=True)
    assert Message.objects.count() == 0
    answer, is_repeated = once(lambda _: DONE, in_one_transaction=True)
    assert (answer.status, is_repeated) == (200, False)


@pytest.mark.django_db(transaction=True)
def test_an_answer_of_500_and_what_raises_leave_nothing_behind() -> None:
    once(lambda _: StoredAnswer(500, "x", b""))
    with pytest.raises(SystemExit):
        once(lambda _: (_ for _ in ()).throw(SystemExit))
    assert not IdempotencyKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_request_that_stood_still_is_begun_anew_and_does_nothing_more() -> None:
    committed: list[str] = []

    def act(renew: Renew, name: str = "second") -> StoredAnswer:
        with transaction.atomic():
            renew()
            committed.append(name)
        return DONE

    def stands_still(renew: Renew) -> StoredAnswer:
        act(renew, "first")
        stand_still()
        assert once(act) == (DONE, False)
        return act(renew, "first, late")

    with pytest.raises(IdempotencyKeyInFlight, match="begun anew"):
        once(stands_still)
    assert committed == ["first", "second"]
    assert once(act) == (DONE, True), "the answer of the second is kept"


def test_a_batch_that_was_begun_anew_goes_no_further(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "SLICE_ROWS", 1)
    renewals = 0

    def begun_anew(execute: Callable[..., object], sql: str, *more: object) -> object:
        nonlocal renewals
        if sql.startswith("UPDATE idempotency_key"):
            renewals += 1
            if renewals > 1:
                IdempotencyKey.objects.all().delete()
        return execute(sql, *more)

    lines = b"\n".join(json.dumps(ENVELOPE).encode() for _ in range(3))
    with connection.execute_wrapper(begun_anew):
        answer = admin.post("messages/batch/", lines, Idempotency_Key="k", Content_Type=NDJSON)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_in_flight")
    assert Message.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_request_with_a_transaction_open_is_alive_however_long_it_takes() -> None:
    seen: list[str] = []

    def other() -> None:
        try:
            once(lambda _: DONE)
        except IdempotencyKeyInFlight as error:
            seen.append(error.code)
        finally:
            connection.close()

    def act(renew: Renew) -> StoredAnswer:
        stand_still()
        thread = threading.Thread(target=other)
        with transaction.atomic():
            renew()
            thread.start()
            while thread.is_alive() and not waiting_for_locks():
                thread.join(0.01)
            assert not seen
        thread.join()
        return DONE

    assert once(act) == (DONE, False)
    assert seen == ["idempotency_key_in_flight"]


def waiting_for_locks() -> int:
    """Return how many sessions wait for one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_clear_snapshot(), count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[1])


class Killer:
    """Kills at a statement: what is executed from then on never is, also what would clean up."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, execute: Callable[..., object], *statement: object) -> object:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return execute(*statement)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["messages/", "messages/batch/"])
def test_killed_at_any_statement_and_sent_again_it_is_carried_out_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "SLICE_ROWS", 1)
    admin, taken = caller_of("admin"), Counter[int]()
    for at in range(200):
        lines = [json.dumps(ENVELOPE | {"message_id": f"{at}-{n}"}).encode() for n in range(2)]
        body, kind = (lines[0], "application/json") if path == "messages/" else (b"\n".join(lines), NDJSON)
        killer = Killer(at)
        with connection.execute_wrapper(killer):
            try:
                admin.post(path, body, Idempotency_Key=str(at), Content_Type=kind)
            except KeyboardInterrupt:
                connection.close()
        again = admin.post(path, body, Idempotency_Key=str(at), Content_Type=kind)
        if again.status_code == 409:
            assert path == "messages/batch/", "one transaction leaves nothing behind that would have to expire"
            assert again.json()["code"] == "idempotency_key_in_flight"
            stand_still()
            again = admin.post(path, body, Idempotency_Key=str(at), Content_Type=kind)
        assert again.status_code in (201, 202), again.content
        taken[Envelope.objects.filter(message_id__startswith=f"{at}-").count()] += 1
        if killer.left >= 0:
            break
    else:
        raise AssertionError("it was killed each time")
    assert set(taken) == {1 if path == "messages/" else 2}
