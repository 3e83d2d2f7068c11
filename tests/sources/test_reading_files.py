"""Sources: one run at a time, a source in trouble on its own, stray rows swept."""

from collections.abc import Sequence

import psycopg
import pytest

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.intake.commands.staged import sweep_orphans
from poisonadmin.sources.commands.directories import Stage, ingest_due, ingest_source, request_ingest
from poisonadmin.sources.domain.files import FileToTake, StagedFile
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.intake import Source, SourceFile
from poisonadmin.store.models.run import LongRun
from tests.fixtures.inbox import Inbox
from tests.intake.store import assert_whole, line, messages, rows


class NotingHeartbeat:
    """Notes which jobs were held and released."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.released: list[int] = []
        self.hold = self.held.append
        self.release = self.released.append


def fail_to_stage(files: object) -> list[object]:
    raise RuntimeError("the cluster is away\nwith a long trace")


def test_a_source_that_somebody_is_at_is_left_alone(inbox: Inbox, test_database_url: str) -> None:
    inbox.drop("a.ndjson", line())
    with psycopg.connect(test_database_url) as other:
        other.execute("SELECT pg_advisory_lock(%s, %s)", [Lock.SOURCE.value, inbox.source.id])
        assert ingest_source(inbox.source.id, stage=fail_to_stage, worker="tests") is None  # type: ignore[arg-type]


def test_staging_that_fails_ends_the_job_and_is_said_on_the_source(inbox: Inbox) -> None:
    inbox.drop("a.ndjson", line())
    heartbeat = NotingHeartbeat()
    with pytest.raises(RuntimeError):
        ingest_due(fail_to_stage, worker="tests", heartbeat=heartbeat)  # type: ignore[arg-type]
    [job] = LongRun.objects.all()
    inbox.source.refresh_from_db()
    assert (job.state, job.error) == ("failed", "RuntimeError: the cluster is away")
    assert inbox.source.last_error == "the cluster is away"
    assert heartbeat.held == heartbeat.released == [job.id]
    assert inbox.files() == [("seen", 0, 0, 0)]


def test_a_worker_that_is_to_end_leaves_the_rest_to_the_next_run(inbox: Inbox, stage: Stage) -> None:
    inbox.drop("a.ndjson", line(message_id="1"))
    stopping: list[bool] = []

    def stage_and_be_stopped(files: Sequence[FileToTake]) -> Sequence[StagedFile]:
        stopping.append(True)
        return stage(files)

    ingest_due(stage_and_be_stopped, worker="tests", heartbeat=NotingHeartbeat(), is_stopping=lambda: bool(stopping))
    inbox.source.refresh_from_db()
    assert (LongRun.objects.get().state, inbox.source.last_error) == ("cancelled", None)
    assert (inbox.files(), messages()) == ([("staged", 0, 0, 0)], {})
    ingest_due(stage, worker="tests", heartbeat=NotingHeartbeat())
    assert (inbox.files(), len(messages())) == ([("taken", 1, 0, 0)], 1)
    assert_whole()


def test_a_source_in_trouble_does_not_keep_the_others_from_their_turn(inbox: Inbox, stage: Stage) -> None:
    broken = Source.objects.create(name="first", kind="directory", config={"path": str(inbox.directory / "missing")})
    Source.objects.filter(id=inbox.source.id).update(id=broken.id + 1)
    inbox.drop("a.ndjson", line())
    ingest_due(stage, worker="tests", heartbeat=NotingHeartbeat())
    assert len(messages()) == 1


def test_a_source_that_is_off_is_not_drained(inbox: Inbox) -> None:
    inbox.drop("a.ndjson", line())
    Source.objects.update(is_enabled=False)
    ingest_due(fail_to_stage, worker="tests", heartbeat=NotingHeartbeat())  # type: ignore[arg-type]
    assert inbox.files() == []


def test_asking_for_a_run_is_audited_and_needs_its_permission(inbox: Inbox) -> None:
    request_ingest(inbox.source.id, SYSTEM)
    assert list(Audit.objects.values_list("action", "object_id")) == [("source.ingest_requested", "inbox")]
    with pytest.raises(NotAllowed):
        request_ingest(inbox.source.id, principal("vic", Role.VIEWER))


def test_what_was_staged_for_no_run_is_swept_with_its_bodies(inbox: Inbox, stage: Stage) -> None:
    inbox.drop("a.ndjson", line())
    ingest_source(inbox.source.id, stage=stage, worker="tests")
    taken = SourceFile.objects.get()
    waiting = SourceFile.objects.create(source=inbox.source, path="/b.ndjson", size_bytes=1, modified_ns=1)
    for row_id, file_id in ((-1, taken.id), (-2, taken.id + 1000), (-3, waiting.id)):
        rows("INSERT INTO body VALUES (%s, '{}', 'x') RETURNING id", row_id)
        rows(
            """INSERT INTO staged_message (id, batch, line, address, message_id, content_type, payload_bytes)
               VALUES (%s, %s, 1, 'a', 'm', 'text/plain', 1) RETURNING id""",
            row_id,
            f"file:{file_id}:{row_id}",
        )
    assert sweep_orphans() == 2
    assert rows("SELECT id FROM staged_message") == [(-3,)]
    assert rows("SELECT id FROM body WHERE id < 0") == [(-3,)]
    rows("DELETE FROM staged_message RETURNING id")
    rows("DELETE FROM body WHERE id < 0 RETURNING id")
    assert_whole()
