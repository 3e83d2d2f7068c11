"""Broker checks and the deletion of sources, where processes hang, race or die."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from django.db import connection

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.locks import Lock
from poisonadmin.sources.commands.broker_checks import answer_due, request_broker_check, request_source_check
from poisonadmin.sources.commands.setup import SourceBusy, delete_source, save_source
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult
from poisonadmin.sources.queries.broker_checks import BrokerCheckState, get_broker_check
from poisonadmin.store.models.intake import BrokerCheck, BrokerCheckPurpose, RejectedLine, Source, SourceFile
from poisonadmin.system.commands.housekeeping import clean_up

CONFIG = {"url": "amqp://rabbit.example.org", "queues": ["orders.dlq"]}
LOGIN = {"username": "drain", "password": "canary"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(db: None) -> Source:
    return save_source("shop", kind="rabbitmq", config=CONFIG, secrets=LOGIN, principal=SYSTEM)


def asked() -> int:
    return request_broker_check("rabbitmq", CONFIG, BrokerCheckPurpose.CONNECTION, principal=SYSTEM, secrets=LOGIN)


def seen(purpose: str, kind: str, config: Mapping[str, Any], login: Mapping[str, str]) -> BrokerCheckResult:
    return BrokerCheckResult(7)


def test_a_broker_that_hangs_is_given_up_and_the_next_is_looked_at() -> None:
    hangs = threading.Event()

    def check(*_: object) -> BrokerCheckResult:
        if hangs.is_set():
            return BrokerCheckResult(7)
        hangs.set()
        threading.Event().wait()
        raise AssertionError

    first, second = asked(), asked()
    assert answer_due(check, seconds=0.2) == 2
    assert get_broker_check(first, principal=SYSTEM).error == "The broker did not answer within 0 s."
    assert get_broker_check(second, principal=SYSTEM).depth == 7
    assert [row.secrets for row in BrokerCheck.objects.all()] == [{}, {}]


def test_a_check_is_made_once_also_when_its_worker_was_killed() -> None:
    check_id = asked()
    with connection.cursor() as cursor:
        # What is left of a worker that was killed after it took the check.
        cursor.execute("UPDATE broker_check SET taken_at = now()")
    assert answer_due(seen) == 0
    assert get_broker_check(check_id, principal=SYSTEM).state == BrokerCheckState.WAITING
    BrokerCheck.objects.update(asked_at="2020-01-01T00:00:00Z")
    assert get_broker_check(check_id, principal=SYSTEM).state == BrokerCheckState.FAILED


def test_a_question_and_its_login_are_kept_a_quarter_of_an_hour() -> None:
    asked()
    BrokerCheck.objects.update(asked_at="2020-01-01T00:00:00Z")
    clean_up()
    assert not BrokerCheck.objects.exists()


def test_a_source_that_goes_while_it_is_looked_at_leaves_nothing(source: Source) -> None:
    request_source_check(source.id, BrokerCheckPurpose.CONNECTION, principal=SYSTEM)

    def check(*_: object) -> BrokerCheckResult:
        return BrokerCheckResult(7)

    delete_source(source.id, principal=SYSTEM)
    assert answer_due(check) == 0
    assert not Source.objects.exists()


@pytest.fixture
def run(transactional_db: None, test_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a session as a run of a worker has it."""
    with psycopg.connect(test_database_url, autocommit=True) as session:
        yield session


def test_a_source_is_not_deleted_under_a_run(run: psycopg.Connection[Any]) -> None:
    source = save_source("shop", kind="rabbitmq", config=CONFIG, principal=SYSTEM)
    run.execute("SELECT pg_advisory_lock(%s, %s)", [Lock.SOURCE, source.id])
    with pytest.raises(SourceBusy):
        delete_source(source.id, principal=SYSTEM)
    run.execute("SELECT pg_advisory_unlock(%s, %s)", [Lock.SOURCE, source.id])
    delete_source(source.id, principal=SYSTEM)
    assert not Source.objects.exists()


def test_a_directory_with_a_file_half_taken_in_stays() -> None:
    source = save_source("inbox", kind="directory", config={"path": "/srv/inbox"}, principal=SYSTEM)
    file = SourceFile.objects.create(source=source, path="/srv/inbox/a.ndjson", size_bytes=1, modified_ns=1)
    RejectedLine.objects.create(
        source=source, source_file=file, batch="b", line=1, code="invalid_json", detail="", raw=b"{"
    )
    SourceFile.objects.update(state="staged")
    with pytest.raises(SourceBusy):
        delete_source(source.id, principal=SYSTEM)
    SourceFile.objects.update(state="taken")
    delete_source(source.id, principal=SYSTEM)
    assert not RejectedLine.objects.exists()


def test_two_who_create_a_source_at_once_make_one(run: psycopg.Connection[Any]) -> None:
    failures: list[BaseException] = []

    def save(readers: int) -> None:
        try:
            save_source("shop", kind="rabbitmq", config=CONFIG | {"readers": readers}, principal=SYSTEM)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=[readers]) for readers in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert Source.objects.get().version == len(threads)
