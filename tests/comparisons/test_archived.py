"""Messages that are archived are compared as they were when they were live."""

from collections.abc import Sequence
from functools import partial

import psycopg
import pytest
from pyspark.sql import SparkSession

from poisonadmin.addresses.commands import ensure_addresses
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.comparisons.commands.requests import compare_ids, request_comparison
from poisonadmin.comparisons.queries.comparisons import ComparisonResult, ComparisonRow, get_comparison
from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.locks import Lock
from poisonadmin.store.models.archive import ArchivedMessage
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from tests.archive.fixtures import age, archive, place  # noqa: F401  (a fixture)
from tests.comparisons.incident import compare_due, incident
from tests.comparisons.test_comparing import order
from tests.fixtures.decisions import mark_fail
from workers.spark.jobs.compare import compare

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place")]


def compared(spark: SparkSession, selection_id: int) -> ComparisonRow:
    asked = request_comparison(selection_id=selection_id, principal=SYSTEM)
    compare_due(partial(compare, spark), seconds=600)
    row = get_comparison(asked, principal=SYSTEM)
    assert (row.state, row.error) == ("succeeded", None)
    return row


def archived(spark: SparkSession, ids: Sequence[int]) -> None:
    age(ids, 500)
    request_archive_run(principal=SYSTEM)
    archive(spark)


def result_of(row: ComparisonRow) -> ComparisonResult:
    assert row.result is not None
    return row.result


def said(row: ComparisonRow) -> tuple[object, ...]:
    found = result_of(row)
    return found.findings, found.failing, found.others, found.fields, found.tested, row.against


def test_findings_are_the_same_before_and_after_the_messages_are_archived(spark: SparkSession) -> None:
    failing, others = incident(40, 200, order)
    assert len(mark_fail(failing, principal=SYSTEM, reason="given up").changed) == 40
    # They ended elsewhere; the others are those of the address where they came in.
    dead = ensure_addresses(["orders.dead"])["orders.dead"].id
    came_in = Message.objects.get(id=failing[0]).address_id
    Message.objects.filter(id__in=failing).update(address_id=dead, original_address_id=came_in)
    first = request_comparison(message_filter={"state": ["FAIL"]}, principal=SYSTEM)
    selection_id = get_comparison(first, principal=SYSTEM).selection_id
    before = compared(spark, selection_id)
    assert len(result_of(before).findings) == 1
    assert (result_of(before).failing, result_of(before).others) == (40, 200)
    assert before.against is not None
    assert before.against["address"] == ["orders.eu"]

    archived(spark, others)
    assert ArchivedMessage.objects.count() == 200
    assert said(compared(spark, selection_id)) == said(before)

    archived(spark, failing)
    assert ArchivedMessage.objects.count() == 240
    assert said(compared(spark, selection_id)) == said(before)

    # A file still has the rows of one that is live again, and they do not count.
    restore_from_archive(failing[0], reason="once more", principal=SYSTEM)
    restore_from_archive(others[0], reason="once more", principal=SYSTEM)
    assert Message.objects.count() == 2
    again = result_of(compared(spark, selection_id))
    assert (again.failing, again.findings[0].conditions) == (40, result_of(before).findings[0].conditions)


def test_a_filter_that_the_archive_cannot_answer_is_asked_of_live_messages_only(spark: SparkSession) -> None:
    failing, others = incident(30, 200, order)
    archived(spark, others[:80])
    asked = request_comparison(
        message_filter={"state": ["NDLV"]}, against={"q": ["attempts:1"], "state": ["DLVD"]}, principal=SYSTEM
    )
    compare_due(partial(compare, spark), seconds=600)
    row = result_of(get_comparison(asked, principal=SYSTEM))
    assert (row.failing, row.others) == (len(failing), 120)


def test_archived_messages_out_of_scope_are_not_compared(spark: SparkSession) -> None:
    limited = principal("pat", Role.OPERATOR, ["orders.us"])
    _, elsewhere = incident(0, 20, order)
    failing, others = incident(10, 30, order, address="orders.us")
    archived(spark, [*elsewhere, *others])
    asked = request_comparison(message_filter={"state": ["NDLV"]}, against={"state": ["DLVD"]}, principal=limited)
    compare_due(partial(compare, spark), seconds=600)
    row = result_of(get_comparison(asked, principal=SYSTEM))
    assert (row.failing, row.others) == (len(failing), 30)


def test_while_rows_move_to_the_archive_a_comparison_waits(test_database_url: str) -> None:
    failing, _ = incident(5, 20, order)
    asked = compare_ids(failing, principal=SYSTEM)
    with psycopg.connect(test_database_url) as mover:
        mover.execute("SELECT pg_advisory_xact_lock(%s, 0)", [Lock.TABLES])
        compare_due(lambda *_: pytest.fail("it was compared"))
    row = LongRun.objects.get(id=asked)
    assert (row.state, row.tries) == ("queued", 0)
