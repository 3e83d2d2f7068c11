"""A fault that strikes nothing shows nothing: each moment that faults wait for comes by here, in a small run."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.intake.commands.batch import accept_stream
from poisonadmin.runs.commands import worker_runs
from poisonadmin.runs.domain.kinds import KindName
from poisonadmin.store.models.message import Message
from poisonadmin.store.schema import UnusableDatabase, check_schema
from tests.faults import moments
from tests.faults.f07_ingest import JOB
from tests.faults.f07_spark import DELIVERING
from tests.faults.f25_everything import REFUSAL
from tests.faults.kills import SANDBOX, running
from tests.faults.moments import STATEMENTS, NoSuchStatement, caught, statement_of
from tests.fixtures.delivery import answer, claim, enqueue, make_destination, make_handler, run_shards, states
from tests.messages.overlap import Aside, rows
from tests.messages.simulated_tasks import execute
from tests.whole_system.installation import until

CATCH_SECONDS = 20
LINE = b'{"address": "orders.eu", "payload": "in a batch"}'


@contextmanager
def deliveries() -> Iterator[Aside]:
    """Take messages in, claim and settle them meanwhile, one after the other, on a thread of its own."""
    is_over = threading.Event()

    def deliver() -> list[int]:
        delivered = []
        while not is_over.is_set():
            assert accept_stream([LINE], principal=SYSTEM).accepted == 1
            message = Message.objects.latest("id").id
            claim()
            answer([message])
            settle()
            delivered.append(message)
        return delivered

    aside = Aside(deliver)
    try:
        yield aside
    finally:
        is_over.set()
        assert aside.has_ended_within(CATCH_SECONDS)


@pytest.mark.parametrize("moment", STATEMENTS)
def test_each_statement_comes_by_and_is_caught(moment: str, transactional_db: None, test_database_url: str) -> None:
    make_destination()
    with deliveries() as delivering, caught(test_database_url, moment, within=CATCH_SECONDS) as session:
        assert session == delivering.session
        assert not delivering.has_ended_within(0)
    delivered = delivering.join()
    assert set(states(delivered)) == {"DLVD"}, "what was caught goes on"
    assert rows("SELECT FROM pg_trigger WHERE tgname = 'fault_waits'") == []


def test_a_session_that_is_ended_in_the_middle_leaves_nothing_of_its_statement(
    transactional_db: None, test_database_url: str
) -> None:
    make_destination()
    with deliveries() as delivering, caught(test_database_url, "claim", within=CATCH_SECONDS) as session:
        execute("SELECT pg_terminate_backend(%s)", session)
    assert delivering.error is not None
    assert rows("SELECT state, attempt_number FROM message ORDER BY id DESC LIMIT 1") == [("TBDL", 0)]


def test_a_statement_that_does_not_come_by_is_missed(transactional_db: None, test_database_url: str) -> None:
    make_destination()
    with pytest.raises(AssertionError, match="no merge came by"), caught(test_database_url, "merge", within=0.1):
        pass


@pytest.mark.parametrize("name", ["no_such:_TAKE", "poisonadmin.delivery.commands.claim:_GONE", "os:getpid"])
def test_a_statement_that_is_gone_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(moments.STATEMENTS, "claim", name)
    with pytest.raises(NoSuchStatement, match=name):
        statement_of("claim")


def test_a_process_that_delivers_and_its_sandbox_are_found(
    transactional_db: None, test_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text("import time\ndef handle(message): time.sleep(1)\n")
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(tmp_path))
    make_handler()
    (message,) = enqueue()
    taken = claim()

    def found() -> None:
        until(lambda: rows(DELIVERING) == [(os.getpid(),)], CATCH_SECONDS)
        until(lambda: running(SANDBOX, psutil.Process().children()), CATCH_SECONDS)

    looking = Aside(found)
    run_shards(test_database_url, taken)
    looking.join()
    settle()
    assert states([message]) == ["DLVD"]
    assert rows(DELIVERING) == []


def test_a_file_that_is_read_is_found(db: None) -> None:
    assert rows(JOB) == [(0,)]
    worker_runs.begin(KindName.INGEST, worker="batch", params={}, phase="reading")
    assert rows(JOB) == [(1,)]


def test_a_start_on_tables_of_a_later_version_says_what_the_campaign_waits_for(transactional_db: None) -> None:
    execute("INSERT INTO django_migrations (app, name, applied) VALUES ('store', '9999_newer', now())")
    try:
        with pytest.raises(UnusableDatabase) as refused:
            check_schema()
    finally:
        execute("DELETE FROM django_migrations WHERE name = '9999_newer'")
    assert REFUSAL in str(refused.value)
