"""Archived failures get the fingerprints of this version: files stay as they are, groups keep what they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from pyspark.sql import SparkSession

from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.archive.commands.restoring import restore_from_archive
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.groups.commands import regrouping
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.commands.regrouping import FailureReader, request_regrouping
from poisonadmin.groups.domain.failures import Failure, fingerprint, title
from poisonadmin.groups.queries.groups import get_group
from poisonadmin.messages.queries.archived import attempts, detail
from poisonadmin.messages.queries.archived_index import archived_files
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import list_archived
from poisonadmin.store.models.archive import ArchivedMessage, ArchiveFile
from poisonadmin.store.models.attempt import Attempt, FailureGroup
from poisonadmin.store.models.failure_group import FingerprintAlias, RegroupMove
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.run import LongRun
from tests.archive.fixtures import age, archive, place  # noqa: F401  (a fixture)
from tests.fixtures.api import take_dead
from tests.fixtures.decisions import mark_fail
from tests.messages.former_rules import Here, by_class, grouped, groups_of, regroup_with, renamed
from workers.spark.jobs import regroup as regroup_job
from workers.spark.jobs.regroup import SparkFailureReader
from workers.spark.tables.source import Extent, read_table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("place")]
_COPIED = ("message_id", "finished_at", "outcome", "error_class", "error_message", "fingerprint", "title")
NOW = Failure("TimeoutError", "no answer in 30 s")


@pytest.fixture(autouse=True)
def _same_database(test_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", test_database_url)


def archived(spark: SparkSession, ids: list[int]) -> None:
    """Give messages up, and have them archived."""
    assert mark_fail(ids, principal=SYSTEM, reason="given up").changed
    age(ids, 500)
    request_archive_run(principal=SYSTEM)
    archive(spark)
    assert ArchivedMessage.objects.filter(id__in=ids).count() == len(ids)


def regroup(failures: FailureReader) -> LongRun:
    """Regroup what there is, live and archived, in one turn; no file of the archive changes."""
    files = contents()
    run = request_regrouping(actor="tests")
    regroup_with(failures, seconds=120)
    assert contents() == files
    return LongRun.objects.get(id=run.run_id)


def contents() -> dict[str, bytes]:
    """Return the files of the archive."""
    return {str(one): one.read_bytes() for one in Path(settings.ARCHIVE).rglob("*") if one.is_file()}


def rows(spark: SparkSession, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of what the archive's files have, in order."""
    extent = Extent(files=archived_files(table))
    return sorted(tuple(row) for row in read_table(spark, table, extent, columns=columns, tasks=1).collect())


def is_over(spark: SparkSession, ids: list[int], failure: Failure = NOW) -> None:
    """Fail unless these archived messages have the fingerprint of this version, in files, index and counts."""
    mark, line = fingerprint(failure), title(failure)
    group = FailureGroup.objects.get(fingerprint=mark)
    found = rows(spark, "attempts", "message_id", "fingerprint", "title", "error_class")
    assert [row for row in found if row[0] in ids] == [(one, mark, line, failure.exception_class) for one in ids]
    found = rows(spark, "messages", "id", "fingerprint", "failure", "group_id")
    seen = group.merged_into_id or group.id
    assert [row for row in found if row[0] in ids] == [(one, mark, line, seen) for one in ids]
    assert set(ArchivedMessage.objects.filter(id__in=ids).values_list("group_id", flat=True)) == {group.id}
    assert not RegroupMove.objects.exists()
    files = {str(one) for one in Path(settings.ARCHIVE).rglob("*.parquet")}
    assert files == {one for table in ("messages", "attempts", "history", "extras") for one in archived_files(table)}


def test_archived_failures_go_with_their_group(spark: SparkSession) -> None:
    with grouped(renamed):
        ids = [take_dead() for _ in range(4)]
    (group,) = set(groups_of(ids))
    assert group is not None
    annotate(group, {"note": "call Ada"}, principal=SYSTEM)
    archived(spark, ids[:3])
    run = regroup(SparkFailureReader(spark))
    assert (run.state, run.result) == ("succeeded", {"read": 4, "changed": 4})
    is_over(spark, ids[:3])
    found = get_group(group, principal=SYSTEM)
    assert (found.fingerprint, found.note, found.failures) == (fingerprint(NOW), "call Ada", 4)
    listed = list_archived(parse_filter({"group": [str(group)]}), principal=SYSTEM).results
    assert sorted(one.id for one in listed) == ids[:3]
    restore_from_archive(ids[0], reason="needed", principal=SYSTEM)
    assert Message.objects.get(id=ids[0]).group_id == group
    before = set(archived_files("attempts"))
    assert regroup(SparkFailureReader(spark)).result == {"read": 4, "changed": 0}
    assert set(archived_files("attempts")) == before


def test_a_group_whose_failures_are_all_archived_is_split_with_exact_counts(spark: SparkSession) -> None:
    with grouped(by_class):
        many = [take_dead() for _ in range(3)]
        few = [take_dead(exception_message="refused") for _ in range(2)]
    (group,) = set(groups_of(many + few))
    archived(spark, many + few)
    regroup(SparkFailureReader(spark))
    is_over(spark, many)
    is_over(spark, few, Failure("TimeoutError", "refused"))
    counts = dict(FailureGroup.objects.values_list("fingerprint", "failures"))
    assert counts == {fingerprint(NOW): 3, fingerprint(Failure("TimeoutError", "refused")): 2}
    kept = FailureGroup.objects.get(fingerprint=fingerprint(NOW))
    assert (kept.id, kept.first_at <= kept.last_at) == (group, True)
    new = FailureGroup.objects.exclude(id=group).get()
    assert (new.error_class, new.is_unseen, new.merged_into_id) == ("TimeoutError", False, None)


@pytest.mark.parametrize("moment", ["surveyed", "decided", "read", "aliased"])
def test_whenever_it_is_killed_it_goes_on_and_nothing_is_lost_or_doubled(
    spark: SparkSession, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with grouped(by_class):
        ids = [take_dead() for _ in range(3)]
        others = [take_dead(exception_message="refused") for _ in range(2)]
    archived(spark, ids + others)
    content = rows(spark, "messages", "id", "payload", "headers", "state")
    names = {"surveyed": "_advance", "decided": "decide_on_groups", "read": "changes", "aliased": "give_aliases"}

    def killed(done: Any) -> Any:
        def do(*given: Any, **named: Any) -> None:
            done(*given, **named)
            raise KeyboardInterrupt

        return do

    with monkeypatch.context() as patched:
        where = {"surveyed": regrouping._RegroupingTurn, "read": SparkFailureReader}.get(moment, regrouping)
        patched.setattr(where, names[moment], killed(getattr(where, names[moment])))
        with pytest.raises(KeyboardInterrupt):
            regroup(SparkFailureReader(spark))
    assert rows(spark, "messages", "id", "payload", "headers", "state") == content
    regroup(SparkFailureReader(spark))
    assert rows(spark, "messages", "id", "payload", "headers", "state") == content
    is_over(spark, ids)
    is_over(spark, others, Failure("TimeoutError", "refused"))
    assert sorted(FailureGroup.objects.values_list("failures", flat=True)) == [2, 3]
    (manifest,) = Path(settings.ARCHIVE).rglob("manifest.json")
    named = {one["path"] for one in json.loads(manifest.read_text())["files"]}
    assert named == set(ArchiveFile.objects.values_list("path", flat=True))


def test_one_message_whose_archived_failures_go_apart_is_restored_as_it_is_seen(spark: SparkSession) -> None:
    """Its group is that of its last failure, each failure has its own fingerprint, and the pages agree."""
    refused = Failure("TimeoutError", "refused")
    with grouped(by_class):
        many = [take_dead() for _ in range(3)]
        (mixed,) = [take_dead(exception_message="refused")]
    first = Attempt.objects.get(message_id=mixed)
    Attempt.objects.create(**{field: getattr(first, field) for field in _COPIED}, attempt_number=1)
    Attempt.objects.filter(message_id=mixed, attempt_number=0).update(error_message="no answer in 30 s")
    archived(spark, [*many, mixed])
    regroup(SparkFailureReader(spark))
    found = [row for row in rows(spark, "attempts", "message_id", "attempt_number", "fingerprint") if row[0] == mixed]
    assert found == [(mixed, 0, fingerprint(NOW)), (mixed, 1, fingerprint(refused))]
    group = FailureGroup.objects.get(fingerprint=fingerprint(refused))
    assert detail(mixed, principal=SYSTEM).group_id == group.id
    shown = attempts(mixed, principal=SYSTEM).results
    assert [(one.attempt_number, one.group_id, one.title) for one in shown] == [
        (1, group.id, title(refused)),
        (0, FailureGroup.objects.get(fingerprint=fingerprint(NOW)).id, title(NOW)),
    ]
    found = [one.id for one in list_archived(parse_filter({"group": [str(group.id)]}), principal=SYSTEM).results]
    assert found == [mixed]
    only = read_table(spark, "messages", Extent(files=archived_files("messages")), columns=["id", "group_id"], tasks=1)
    assert [row.id for row in only.where(f"group_id = {group.id}").collect()] == [mixed]
    with pytest.MonkeyPatch.context() as later:
        later.setattr(regroup_job, "fingerprint", renamed)
        regroup_job._of.cache_clear()
        assert (regroup(Here()).result or {})["changed"] == 5
    regroup_job._of.cache_clear()
    assert list_archived(parse_filter({"group": [str(group.id)]}), principal=SYSTEM).results[0].id == mixed
    restore_from_archive(mixed, reason="needed", principal=SYSTEM)
    stored = Attempt.objects.filter(message_id=mixed).order_by("attempt_number").values_list("fingerprint", flat=True)
    assert list(stored) == [renamed(NOW), renamed(refused)]
    assert (Message.objects.get(id=mixed).group_id, group.failures) == (group.id, 1)
    assert not FingerprintAlias.objects.filter(message_id=mixed).exists()


def test_the_archive_waits_while_failures_are_regrouped(spark: SparkSession) -> None:
    (waiting,) = [take_dead()]
    assert mark_fail([waiting], principal=SYSTEM, reason="given up").changed
    age([waiting], 500)
    request_regrouping(actor="tests")
    request_archive_run(principal=SYSTEM)
    archive(spark)
    assert Message.objects.filter(id=waiting).exists()
    regroup(SparkFailureReader(spark))
    archive(spark)
    assert not Message.objects.filter(id=waiting).exists()
    assert ArchiveFile.objects.filter(is_current=True).exists()
