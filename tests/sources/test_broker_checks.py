"""Broker checks and the deletion of sources, where processes hang, race or die."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.locks import Lock
from poisonadmin.runs.commands.engine import RunTurn
from poisonadmin.runs.queries.jobs import get_job, list_jobs
from poisonadmin.sources.commands.broker_checks import request_broker_check, request_source_check
from poisonadmin.sources.commands.setup import SourceBusy, delete_source, save_source
from poisonadmin.sources.domain.broker_checks import BrokerCheckPurpose, BrokerCheckResult
from poisonadmin.sources.queries import BrokerCheckRow, get_broker_check
from poisonadmin.store.models.intake import RejectedLine, Source, SourceFile
from poisonadmin.store.models.run import LongRun
from poisonadmin.system.commands.housekeeping import clean_up
from tests.sources.checks import make_checks

CONFIG = {"url": "amqp://rabbit.example.org", "queues": ["orders.dlq"]}
LOGIN = {"username": "drain", "password": "canary"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(db: None) -> Source:
    return save_source("shop", kind="rabbitmq", config=CONFIG, secrets=LOGIN, principal=SYSTEM)


def asked() -> int:
    return request_broker_check("rabbitmq", CONFIG, BrokerCheckPurpose.CONNECTION, principal=SYSTEM, secrets=LOGIN)


def seen(check_id: int) -> BrokerCheckRow:
    return get_broker_check(check_id, principal=SYSTEM)


def seven(*_: object) -> BrokerCheckResult:
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
    assert make_checks(check, seconds=0.2) == 2
    assert seen(first).error == "The broker did not answer within 0 s."
    assert seen(second).result == BrokerCheckResult(7)
    assert [run.secrets for run in LongRun.objects.all()] == [None, None]


def test_a_check_is_made_once_also_when_its_worker_was_killed() -> None:
    check_id = asked()
    # What is left of a worker that was killed after it took the check.
    LongRun.objects.update(state="running", tries=1)
    assert seen(check_id).is_waiting
    assert make_checks(seven) == 0
    assert (seen(check_id).state, seen(check_id).error) == ("failed", "It ended its worker.")
    assert LongRun.objects.get().secrets is None


def test_a_check_whose_worker_is_gone_is_not_waited_for() -> None:
    check_id = asked()
    LongRun.objects.update(state="running", tries=1, started_at=timezone.now() - timedelta(seconds=50))
    assert seen(check_id).is_waiting
    LongRun.objects.update(started_at=timezone.now() - timedelta(seconds=70))
    assert (seen(check_id).state, seen(check_id).error) == (
        "failed",
        "No worker has answered; is an io worker running?",
    )


def test_the_jobs_do_not_show_what_a_broker_said_to_who_checked_it() -> None:
    def refused(*_: object) -> BrokerCheckResult:
        raise PoisonAdminError("rabbit.example.org refused the user drain")

    check_id = asked()
    make_checks(refused)
    assert seen(check_id).error == "rabbit.example.org refused the user drain"
    [job] = list_jobs(principal=SYSTEM).results
    assert (job.kind, job.state, job.error) == ("broker_check", "failed", None)
    assert get_job(job.id, principal=SYSTEM).error is None


def test_a_question_and_its_login_are_kept_a_quarter_of_an_hour() -> None:
    asked()
    assert LongRun.objects.get().secrets == LOGIN
    LongRun.objects.update(expires_at="2020-01-01T00:00:00Z")
    clean_up()
    assert not LongRun.objects.exists()


def test_the_next_request_removes_what_no_worker_has_begun() -> None:
    asked()
    LongRun.objects.update(expires_at="2020-01-01T00:00:00Z")
    second = asked()
    assert LongRun.objects.get().id == second


def test_a_check_that_takes_its_time_stays_alive() -> None:
    check_id = asked()
    heartbeats = []

    def check(*_: object) -> BrokerCheckResult:
        until_moved = threading.Event()
        while len(set(heartbeats)) < 2:
            until_moved.wait(0.05)
        return BrokerCheckResult(7)

    def watch(turn: RunTurn, **_: object) -> None:
        heartbeats.append(len(heartbeats))
        store(turn)

    store = RunTurn.report
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("poisonadmin.sources.commands.broker_checks._WAIT_SECONDS", 0.01)
        patch.setattr(RunTurn, "report", watch)
        assert make_checks(check) == 1
    assert seen(check_id).result == BrokerCheckResult(7)


def test_a_source_that_goes_while_it_is_looked_at_leaves_nothing(source: Source) -> None:
    check_id = request_source_check(source.id, BrokerCheckPurpose.CONNECTION, principal=SYSTEM)
    delete_source(source.id, principal=SYSTEM)
    assert make_checks(seven) == 0
    assert seen(check_id).error == "The source was deleted meanwhile."
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
