"""An archived message is found, shown as it was, and restored with every row that it had."""

import platform
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pyspark.sql import SparkSession

from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import IdTaken, TablesInUse, restore_from_archive
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.desk.queries.detail import attempts, get_message, history, hops, payload
from poisonadmin.messages.queries.archived_index import ArchiveUnreadable, archived_files
from poisonadmin.messages.queries.counts import wrong_counters
from poisonadmin.messages.queries.detail_rows import MessageDetail
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import list_archived
from poisonadmin.store.models.archive import ArchiveFile
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Message
from tests.archive.fixtures import age, archive, fail, place, put, rows_of  # noqa: F401  (a fixture)
from tests.fixtures.api import Caller
from tests.fixtures.decisions import mark_fail
from tests.fixtures.delivery import make_orders_destination
from workers.spark.tables.source import Extent, read_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place")]
LIMITED = principal("pat", Role.OPERATOR, ["invoices.*"])


def put_archived(spark: SparkSession) -> int:
    """Archive a message that has a row in every table."""
    message_id = put(2)[0]
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO node (name, host, pid, claim_id, shard, lease_until)
               VALUES ('node-7', 'host', 1, 1, 0, now())"""
        )
        cursor.execute(
            """INSERT INTO attempt (message_id, attempt_number, finished_at, outcome, error_class, error_message,
                                    response, title, fingerprint, claim_id, shard)
               VALUES (%s, 1, now(), 'failed', 'ValueError', 'no such customer', 'said no', 'ValueError', 'abc', 1, 0)
            """,
            [message_id],
        )
        cursor.execute(
            """INSERT INTO hop (message_id, from_address, to_address, reason, by)
               VALUES (%s, 'orders.eu', 'orders.us', 'redirected', 'ann')""",
            [message_id],
        )
        cursor.execute(
            """INSERT INTO payload_version (message_id, number, headers, payload, until_attempt, replaced_by,
                                            operation_id)
               VALUES (%s, 1, '{}', %s, 0, 'ann', 1)""",
            [message_id, b"\x00\xff before"],
        )
        cursor.execute(
            "INSERT INTO annotation (message_id, tags, note) VALUES (%s, '{late,big}', 'ask Ada')", [message_id]
        )
        cursor.execute(
            "INSERT INTO business_key (message_id, name, value) VALUES (%s, 'customer', 'c-77')", [message_id]
        )
        cursor.execute(
            """INSERT INTO confirmation (message_id, attempt_number, destination_id, delivered_at, confirmed_at,
                                         confirmed_by)
               VALUES (%s, 1, 0, now(), now(), 'consumer')""",
            [message_id],
        )
    fail([message_id])
    return message_id


def run(spark: SparkSession) -> None:
    request_archive_run(principal=SYSTEM)
    archive(spark)


def test_an_archived_message_is_shown_as_it_was(spark: SparkSession) -> None:
    message_id = put_archived(spark)
    before = get_message(message_id, principal=SYSTEM)
    changes = history(message_id, principal=SYSTEM).results
    run(spark)
    after = get_message(message_id, principal=SYSTEM)
    assert (before.archived, after.archived) == (False, True)
    for name in sorted(set(MessageDetail.__dataclass_fields__) - {"archived"}):
        assert getattr(after, name) == getattr(before, name), name
    assert b"".join(payload(message_id, principal=SYSTEM).slices).decode() == "é secret-0"
    assert history(message_id, principal=SYSTEM).results == changes
    (attempt,) = attempts(message_id, principal=SYSTEM).results
    assert (attempt.error_message, attempt.response_text, attempt.version) == ("no such customer", "said no", 2)
    assert [hop.to_address for hop in hops(message_id, principal=SYSTEM).results] == ["orders.us"]


def test_a_moved_message_is_shown_with_where_it_came_from(spark: SparkSession) -> None:
    make_orders_destination()
    message_id = put(1, "orders.us")[0]
    with connection.cursor() as cursor:
        for at, to, reason in (("orders.eu", "orders.dlq", "gave up"), ("orders.dlq", "orders.us", "MQRC_2035")):
            cursor.execute(
                """INSERT INTO hop (message_id, from_address, to_address, reason, by, queue)
                   VALUES (%s, %s, %s, %s, 'ann', %s)""",
                [message_id, at, to, reason, f"{to}.queue"],
            )
        cursor.execute(
            """INSERT INTO history (message_id, to_state, event, attempt_number, actor)
               VALUES (%s, 'TBDL', 'released', 3, 'system')""",
            [message_id],
        )
    (other,) = put(1, prefix="other")
    home = Message.objects.get(id=other).address_id
    Message.objects.filter(id=message_id).update(original_address=home, attempt_number=3)
    fail([message_id])
    before = get_message(message_id, principal=SYSTEM)
    run(spark)
    after = get_message(message_id, principal=SYSTEM)
    assert (after.origin, after.queue) == (before.origin, before.queue)
    assert (after.attempts_begun, after.destination, after.has_destination) == (2, "shop", True)


def test_who_does_not_see_a_destination_is_not_told_its_name_by_the_archive(spark: SparkSession) -> None:
    make_orders_destination()
    message_id = put_archived(spark)
    Attempt.objects.update(destination_id=Destination.objects.get().id)
    run(spark)
    for principal_of, name in ((principal("kim", Role.VIEWER, ["orders.#"]), None), (SYSTEM, "shop")):
        assert get_message(message_id, principal=principal_of).destination == name
        assert [row.destination for row in attempts(message_id, principal=principal_of).results] == [name]


@pytest.mark.parametrize(
    "asked",
    [{"message_id": ["m-0"]}, {"key.customer": ["c-77"]}, {"q": ["c-7"]}, {"address": ["orders.#"], "state": ["FAIL"]}],
)
def test_an_archived_message_is_found(spark: SparkSession, asked) -> None:
    message_id = put_archived(spark)
    run(spark)
    assert [row.id for row in list_archived(parse_filter(asked), principal=SYSTEM).results] == [message_id]
    assert list_archived(parse_filter(asked), principal=LIMITED).results == []


def test_who_does_not_see_its_address_does_not_see_an_archived_message(spark: SparkSession) -> None:
    message_id = put_archived(spark)
    run(spark)
    for ask in (get_message, history, attempts, hops, payload):
        with pytest.raises(NotFound):
            ask(message_id, principal=LIMITED)
    with pytest.raises(NotFound):
        restore_from_archive(message_id, reason="mine", principal=LIMITED)


def test_a_restored_message_has_every_row_that_it_had(spark: SparkSession) -> None:
    message_id = put_archived(spark)
    before = rows_of([message_id])
    run(spark)
    restore_from_archive(message_id, reason="look again", principal=SYSTEM)
    after = rows_of([message_id])
    for table in set(before) - {"message", "history"}:
        assert after[table] == before[table], table
    assert set(before["history"]) < set(after["history"])
    assert len(after["history"]) == len(before["history"]) + 1
    (latest, *_) = history(message_id, principal=SYSTEM).results
    assert (latest.event, latest.to_state, latest.note) == ("restored_from_archive", "NDLV", "look again")
    assert not get_message(message_id, principal=SYSTEM).archived
    assert wrong_counters() == []
    assert fetch_values("SELECT count(*) FROM audit WHERE action = 'message.restored_from_archive'") == [1]
    for table in ("messages", "history", "attempts"):
        assert read_table(spark, table, Extent(files=archived_files(table)), tasks=1).count() == 0


def test_a_restored_message_is_archived_again_once(spark: SparkSession) -> None:
    message_id = put_archived(spark)
    run(spark)
    restore_from_archive(message_id, reason="look again", principal=SYSTEM)
    assert mark_fail([message_id], principal=SYSTEM, reason="no").changed
    age([message_id], 500)
    run(spark)
    found = read_table(spark, "messages", Extent(files=archived_files("messages")), columns=["id"], tasks=2).collect()
    assert [row.id for row in found] == [message_id]
    assert len(history(message_id, principal=SYSTEM).results) == 5
    assert fetch_values("SELECT sum(n) FROM day_figure WHERE figure = 'FAIL'") == [1]
    assert wrong_counters() == []


def test_a_message_whose_id_was_taken_since_is_not_restored(spark: SparkSession) -> None:
    message_id = put_archived(spark)
    run(spark)
    put(1)
    with pytest.raises(IdTaken):
        restore_from_archive(message_id, reason="look again", principal=SYSTEM)
    assert get_message(message_id, principal=SYSTEM).archived


def test_a_file_that_is_not_what_was_written_gives_nothing_back(spark: SparkSession, capsys, place: str) -> None:  # noqa: F811
    message_id = put_archived(spark)
    run(spark)
    call_command("verify_archive")
    assert "are as they were written" in capsys.readouterr().out
    (path,) = (Path(place) / one.path for one in ArchiveFile.objects.filter(table_name="messages", is_current=True))
    rows = pq.read_table(path)
    payloads = pa.array([b'{"n": "another"}'] * rows.num_rows, rows.schema.field("payload").type)
    pq.write_table(rows.set_column(rows.schema.get_field_index("payload"), "payload", payloads), path)
    with pytest.raises(ArchiveUnreadable, match="not what was written"):
        restore_from_archive(message_id, reason="look again", principal=SYSTEM)
    pq.write_table(rows.slice(0, 0), path)
    with pytest.raises(ArchiveUnreadable, match="is not in it"):
        get_message(message_id, principal=SYSTEM)
    with pytest.raises(CommandError, match="1 of"):
        call_command("verify_archive")
    path.unlink()
    with pytest.raises(ArchiveUnreadable, match=f"{path} cannot be read: {platform.node()} has none"):
        get_message(message_id, principal=SYSTEM)
    with pytest.raises(CommandError, match="1 of"):
        call_command("verify_archive")
    assert path.name in capsys.readouterr().out
    assert fetch_values("SELECT id FROM message WHERE id = %s", [message_id]) == []


def test_what_is_live_is_not_restored_and_what_is_archived_not_decided_on(spark: SparkSession, admin: Caller) -> None:
    message_id = put_archived(spark)
    refused = admin.post(f"messages/{message_id}/restore_from_archive/", {"reason": "look again"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_archived")
    run(spark)
    refused = admin.post(f"messages/{message_id}/approve/", {"reason": "again"})
    assert (refused.status_code, refused.json()["code"]) == (409, "message_archived")
    assert "restore it first" in refused.json()["detail"]


def test_nothing_is_restored_while_somebody_reads(spark: SparkSession, monkeypatch) -> None:
    message_id = put_archived(spark)
    run(spark)
    monkeypatch.setattr("poisonadmin.archive.commands.restoring.WAIT_SECONDS", 0.0)
    reader = connection.copy()
    try:
        with reader.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock_shared(34, 0)")
        with pytest.raises(TablesInUse):
            restore_from_archive(message_id, reason="look again", principal=SYSTEM)
    finally:
        reader.close()
