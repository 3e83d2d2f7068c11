"""Files of a directory source, through Spark, into messages."""

import base64
import gzip
import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from poisonadmin.sources.commands.directories import Ingested, Stage, ingest_source
from poisonadmin.sources.domain.files import FileToTake, StagedFile
from poisonadmin.store.models.intake import Source, SourceFile
from poisonadmin.store.models.run import LongRun
from tests.fixtures.inbox import Inbox, Ingest
from tests.intake.store import assert_whole, line, messages, payloads, rejected, rows
from tests.intake.test_batch import BAD, HOSTILE


def numbered(count: int, first: int = 1) -> bytes:
    return b"".join(line(message_id=str(n), payload=f"body {n}") for n in range(first, first + count))


def test_every_line_of_every_kind_of_file_becomes_one_message(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson", numbered(200, 1001))
    inbox.drop("b.jsonl", numbered(5, 31))
    inbox.drop("c.json", numbered(5, 36))
    inbox.drop("d.ndjson.gz", gzip.compress(numbered(10, 41)))
    inbox.drop("e.json.gz", gzip.compress(numbered(10, 51)))
    assert ingest() == Ingested(files_taken=5, accepted=230)
    expected = [*range(31, 61), *range(1001, 1201)]
    assert messages() == {("orders.eu", str(n)): ("TBDL", f"body {n}".encode()) for n in expected}
    assert {state for state, *_ in inbox.files()} == {"taken"}
    assert_whole()


def test_a_run_is_a_job_with_its_counts(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson", numbered(3) + b"x\n" + numbered(1))
    ingest()
    [job] = LongRun.objects.filter(kind="ingest")
    assert (job.state, job.worker, job.params, job.done, job.total) == ("succeeded", "tests", {"source": "inbox"}, 1, 1)
    assert job.result == {"files_taken": 1, "files_broken": 0, "accepted": 3, "duplicates": 1, "rejected": 1}
    assert inbox.files() == [("taken", 3, 1, 1)]


def test_nothing_new_is_no_job(inbox: Inbox, ingest: Ingest) -> None:
    assert ingest() is None
    inbox.drop("a.ndjson", numbered(1))
    ingest()
    assert ingest() is None
    assert LongRun.objects.count() == 1


def test_a_hostile_payload_comes_out_as_it_went_in(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson", b"".join(b'{"address":"a","payload":%s}\n' % text for text, _ in HOSTILE))
    ingest()
    assert payloads() == [payload for _, payload in HOSTILE]
    assert_whole()


def test_every_bad_line_is_kept_with_its_number_in_the_file(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop(
        "a.ndjson", b"\n" + line(message_id="7") + b"".join(raw + b"\n" for raw, _ in BAD) + line(message_id="8")
    )
    ingest()
    assert rejected() == [(number, code, raw) for number, (raw, code) in enumerate(BAD, start=3)]
    assert len(messages()) == 2
    assert inbox.files() == [("taken", 2, 0, len(BAD))]
    assert_whole()


def test_duplicates_and_conflicts_are_found_within_and_across_files(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson", line(message_id="1") + line(message_id="2") + line(message_id="1"))
    assert ingest() == Ingested(files_taken=1, accepted=2, duplicates=1)
    inbox.drop("b.ndjson", line(message_id="2") + line(message_id="3") + line(message_id="1", payload="other"))
    assert ingest() == Ingested(files_taken=1, accepted=1, duplicates=1, rejected=1)
    [(_, code, raw)] = rejected()
    assert code == "message_id_conflict"
    assert json.loads(raw)["message_id"] == "1"
    assert_whole()


def test_lines_without_an_id_are_messages_of_their_own_each_taken_once(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson", line() * 40)
    assert ingest() == Ingested(files_taken=1, accepted=40)
    assert ingest() is None


def test_a_changed_file_is_another_file_and_its_known_messages_are_duplicates(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson", numbered(3))
    ingest()
    inbox.drop("a.ndjson", numbered(5), age_seconds=5)
    assert ingest() == Ingested(files_taken=1, accepted=2, duplicates=3)


def test_broken_files_are_not_taken_at_all_and_do_not_stop_the_others(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.ndjson.gz", gzip.compress(numbered(500))[:-20])
    inbox.drop("b.parquet", b"PAR1 no more")
    inbox.drop("c.gz.ndjson.gz", b"")
    inbox.drop("d.txt", b"hello")
    inbox.drop("e.ndjson", numbered(2, 1000))
    assert ingest() == Ingested(files_taken=2, files_broken=2, accepted=2)
    states = dict(SourceFile.objects.values_list("path", "state"))
    assert {Path(path).name: state for path, state in states.items()} == {
        "a.ndjson.gz": "broken",
        "b.parquet": "broken",
        "c.gz.ndjson.gz": "taken",
        "d.txt": "broken",
        "e.ndjson": "taken",
    }
    assert all(row.error for row in SourceFile.objects.filter(state="broken"))
    assert (len(messages()), rejected()) == (2, [])
    assert_whole()


def test_a_file_of_something_else_is_broken_rather_than_set_aside_line_by_line(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("a.json.gz", gzip.compress(b"x\n" * 20_000 + line()))
    assert ingest() == Ingested(files_broken=1)
    assert rejected() == []
    assert SourceFile.objects.get().error == "None of its first 10,000 lines is a message."


def test_a_file_that_may_still_be_written_waits(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("new.ndjson", numbered(1), age_seconds=0.5)
    inbox.drop("a.ndjson.part", numbered(1))
    inbox.drop(".hidden.ndjson", numbered(1))
    assert ingest() is None
    inbox.drop("new.ndjson", numbered(1), age_seconds=3)
    inbox.drop("from-tomorrow.ndjson", numbered(1, 2), age_seconds=-86_400)
    assert ingest() == Ingested(files_taken=2, accepted=2)


def test_a_link_is_not_followed(inbox: Inbox, ingest: Ingest, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.ndjson"
    secret.write_bytes(b"password\n")
    (inbox.directory / "a.ndjson").symlink_to(secret)
    (inbox.directory / "sub.ndjson").mkdir()
    os.mkfifo(inbox.directory / "pipe.ndjson")
    assert ingest() is None
    assert inbox.files() == []


def test_hostile_file_names_are_taken_and_told_apart(inbox: Inbox, ingest: Ingest) -> None:
    names = [
        b"new\nline.ndjson",
        b"\xff\xfe.ndjson",
        b"%FF%FE.ndjson",
        b"-rf; $(x).ndjson",
        "Zoë.ndjson".encode(),
        b"a" * 248 + b".ndjson",
    ]
    for number, name in enumerate(names):
        inbox.drop(name, line(message_id=str(number)))
    assert ingest() == Ingested(files_taken=len(names), accepted=len(names))
    assert all(path.isprintable() for (path,) in rows("SELECT path FROM source_file"))
    assert ingest() is None


def test_a_directory_that_is_not_there_is_said_and_no_error(inbox: Inbox, ingest: Ingest) -> None:
    inbox.directory.rmdir()
    assert ingest() is None
    inbox.source.refresh_from_db()
    assert inbox.source.last_error == "The directory cannot be read: No such file or directory"


def test_a_file_that_vanishes_before_it_is_read_is_forgotten(inbox: Inbox, stage: Stage) -> None:
    gone = inbox.drop("a.ndjson", numbered(40))
    inbox.drop("b.ndjson", numbered(1, 100))

    def stage_too_late(files: Sequence[FileToTake]) -> Sequence[StagedFile]:
        Path(os.fsdecode(gone)).unlink()
        return stage(files)

    assert ingest_source(inbox.source.id, stage=stage_too_late, worker="tests") == Ingested(files_taken=1, accepted=1)
    assert inbox.files() == [("taken", 1, 0, 0)]
    assert_whole()


def test_messages_come_in_the_order_of_files_and_lines(inbox: Inbox, ingest: Ingest) -> None:
    inbox.drop("b.ndjson", numbered(200), age_seconds=30)
    inbox.drop("a.ndjson.gz", gzip.compress(numbered(50, 201)), age_seconds=20)
    inbox.drop("c.ndjson", numbered(50, 251), age_seconds=10)
    ingest()
    assert payloads() == [f"body {n}".encode() for n in range(1, 301)]


def test_parquet_rows_are_messages_like_lines(inbox: Inbox, ingest: Ingest) -> None:
    at = datetime(2999, 1, 2, 3, 4, 5, tzinfo=UTC)
    table = pa.table(
        {
            "address": ["orders.eu", "orders.eu", "orders.dlq", None],
            "message_id": ["1", "2", "3", "4"],
            "payload": pa.array([b"\x00\xff", b"", b"x", b"\xff"], pa.binary()),
            "headers": pa.array(
                [[("a", "1")], [("a", "1"), ("a", "2")], None, None], pa.map_(pa.string(), pa.string())
            ),
            "expires_at": pa.array([at, None, None, None], pa.timestamp("us", tz="UTC")),
            "dead_letter": pa.array([None, None, {"reason": "late", "delivery_count": 4}, None]),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    inbox.drop("a.parquet", sink.getvalue().to_pybytes())
    assert ingest() == Ingested(files_taken=1, accepted=2, rejected=2)
    assert messages() == {("orders.eu", "1"): ("TBDL", b"\x00\xff"), ("orders.dlq", "3"): ("NDLV", b"x")}
    assert [(number, code) for number, code, _ in rejected()] == [(2, "duplicate_key"), (4, "missing_field")]
    assert json.loads(rejected()[1][2]) == {"message_id": "4", "payload_base64": base64.b64encode(b"\xff").decode()}
    assert rows("SELECT expires_at FROM envelope WHERE message_id = '1'") == [(at,)]
    assert rows("SELECT failure_count FROM message WHERE state = 'NDLV'") == [(4,)]
    assert_whole()


def test_a_file_that_cannot_be_opened_is_tried_again_later(inbox: Inbox, stage: Stage) -> None:
    path = Path(os.fsdecode(inbox.drop("a.ndjson", numbered(2))))
    away = path.with_name("moved.part")

    def stage_what_became_a_link(files: Sequence[FileToTake]) -> Sequence[StagedFile]:
        path.rename(away)
        path.symlink_to(away)
        staged = stage(files)
        away.replace(path)
        return staged

    ingest_source(inbox.source.id, stage=stage_what_became_a_link, worker="tests")
    [row] = SourceFile.objects.all()
    assert (row.state, "symbolic link" in (row.error or "")) == ("seen", True)
    assert ingest_source(inbox.source.id, stage=stage, worker="tests") is None, "it is not tried again at once"
    a_while_ago = datetime.fromtimestamp(time.time() - 61, UTC)
    Source.objects.filter(id=inbox.source.id).update(last_error_at=a_while_ago)
    assert ingest_source(inbox.source.id, stage=stage, worker="tests") == Ingested(files_taken=1, accepted=2)
