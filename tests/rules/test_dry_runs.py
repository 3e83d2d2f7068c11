"""What a rule would do to the backlog: Spark looks, a job row says how far it is, and nothing is changed."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from django.db import connection
from pyspark.sql import SparkSession

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.messages.domain.id_ranges import IdRange
from poisonadmin.rules import commands
from poisonadmin.rules.commands import Examine, NotDryRun, enable_rule, request_dry_run
from poisonadmin.rules.domain.dry_run import Found, Trial
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.rules.queries import DryRunNotFound, DryRunRow, latest_dry_run
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.rule import Rule
from poisonadmin.store.models.run import LongRun
from tests.fixtures.delivery import answer, claim, enqueue, make_destination
from tests.rules.dry_runs import dry_run_due
from workers.spark.jobs.dry_run import try_rule

NEGATIVE = {"json": [{"path": "$.amount", "outside": {"min": 0}}]}


@pytest.fixture
def examine(
    transactional_db: None, spark: SparkSession, test_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Examine:
    """Return what the batch worker tries rules with, on small ranges."""
    monkeypatch.setenv("DATABASE_URL", test_database_url)
    monkeypatch.setattr(commands, "RANGE_MESSAGES", 7)
    return partial(try_rule, spark)


def rule(match: dict[str, Any], *, stage: str = "before", do: str | None = None) -> Rule:
    action = {"do": do or ("reject" if stage == "before" else "park")}
    return commands.create_rule(stage, RuleFields(name=f"a {stage} rule", match=match, action=action), principal=SYSTEM)


def tried(row: Rule, examine: Examine) -> DryRunRow:
    """Return what a dry run has found."""
    request_dry_run(row.id, principal=SYSTEM)
    dry_run_due(examine, worker="tests")
    return latest_dry_run(row.id, principal=SYSTEM)


def backlog() -> tuple[list[int], list[int]]:
    """Return what waits and what has failed for good on `orders.eu`, every other one with a negative amount."""
    make_destination(max_delivery_attempts=1)
    failed = [enqueue(payload={"amount": n if n % 2 else -1 - n})[0] for n in range(20)]
    claim()
    answer(failed, "failed", status_code=503)
    settle()
    waiting = [enqueue(payload={"amount": n if n % 2 else -1 - n})[0] for n in range(40)]
    return waiting, failed


def test_a_dry_run_says_what_the_rule_would_do_and_does_nothing(examine: Examine) -> None:
    waiting, failed = backlog()
    enqueue(3, address="orders.us")
    row = rule({"address": "orders.eu"} | NEGATIVE)
    with pytest.raises(DryRunNotFound):
        latest_dry_run(row.id, principal=SYSTEM)
    found = tried(row, examine)
    assert (found.result.read, found.result.matched, found.error) == (60, 30, None)
    group = Message.objects.get(id=failed[0]).group_id
    assert [(one.address, one.group_id, one.group_title, one.matched) for one in found.result.found] == [
        ("orders.eu", None, None, 20),
        ("orders.eu", group, "HttpStatusError: 503", 10),
    ]
    assert found.result.found[0].sample_ids == waiting[:20:2]
    assert found.result.found[1].sample_ids == failed[::2]
    assert Attempt.objects.filter(outcome="ruled").count() == 0
    row.refresh_from_db()
    assert (row.hits, row.is_enabled) == (0, False)
    assert enable_rule(row.id, principal=SYSTEM, reason="it was tried").is_enabled
    job = LongRun.objects.get(kind="dry_run")
    assert (job.state, job.done, found.state, found.done) == ("succeeded", 60, "succeeded", 60)
    assert found.id == job.id


def test_only_what_waits_or_is_undecided_is_looked_at_and_only_up_to_the_cut_off(examine: Examine) -> None:
    make_destination()
    delivered, _, waiting = enqueue(3)
    claim(limit=2)
    answer([delivered])
    settle()
    row = rule({})
    request_dry_run(row.id, principal=SYSTEM)
    enqueue(5)
    dry_run_due(examine, worker="tests")
    found = latest_dry_run(row.id, principal=SYSTEM)
    assert (found.result.read, found.result.matched, found.cut_off) == (1, 1, waiting)
    assert found.result.found[0].sample_ids == [waiting]


@pytest.mark.parametrize(
    ("match", "matched"),
    [
        ({"size": {"min": 1}}, 3),
        ({"headers": [{"name": "X-Kind", "like": "push"}]}, 1),
        ({"not_json": True}, 2),
        ({"expires_within_ms": 3_600_000}, 1),
        ({"content_type": "text/*"}, 2),
        ({"violates": {"type": "object", "required": ["id"]}}, 1),
    ],
)
def test_every_kind_of_condition_is_asked(examine: Examine, match: dict[str, Any], matched: int) -> None:
    make_destination()
    enqueue(headers={"X-Kind": "push"})
    enqueue(expires_at="2099-01-01T00:00:00Z")
    [soon] = enqueue(payload={"a": 1})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE message SET expires_at = now() + interval '1 minute' WHERE id = %s", [soon])
    assert tried(rule(match), examine).result.matched == matched


def test_a_failure_rule_is_tried_on_the_last_failure_of_each(examine: Examine) -> None:
    _, failed = backlog()
    found = tried(rule({"status_code": {"min": 500}, "failures": {"max": 1}}, stage="after"), examine)
    assert (found.result.read, found.result.matched) == (20, 20)
    assert found.result.found[0].sample_ids == failed[:10]


def test_a_run_goes_on_where_it_was(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    backlog()
    monkeypatch.setattr(commands, "RANGES_A_WAVE", 2)
    row = rule(NEGATIVE)
    request_dry_run(row.id, principal=SYSTEM)
    assert request_dry_run(row.id, principal=SYSTEM) == request_dry_run(row.id, principal=SYSTEM)
    seen: list[IdRange] = []

    def watched(trial: Trial, ranges: Sequence[IdRange]) -> Sequence[Found]:
        seen.extend(ranges)
        return list(examine(trial, ranges))

    for _ in range(3):
        waves = len(seen)
        dry_run_due(watched, worker="tests", is_stopping=lambda: len(seen) > waves)  # noqa: B023
    assert latest_dry_run(row.id, principal=SYSTEM).ended_at is None
    with pytest.raises(NotDryRun):
        enable_rule(row.id, principal=SYSTEM, reason="too soon")
    dry_run_due(watched, worker="another")
    assert latest_dry_run(row.id, principal=SYSTEM).result.matched == 30
    assert [one.after for one in seen[1:]] == [one.until for one in seen[:-1]], "no message is looked at twice"
    assert set(LongRun.objects.filter(worker="another").values_list("state", flat=True)) == {"succeeded"}


def test_a_rule_that_changes_meanwhile_is_not_said_to_be_tried(examine: Examine) -> None:
    backlog()
    row = rule(NEGATIVE)
    request_dry_run(row.id, principal=SYSTEM)
    commands.replace_rule(row.id, RuleFields(name="other", match={}, action={"do": "reject"}), principal=SYSTEM)
    dry_run_due(examine, worker="tests")
    assert "changed" in str(latest_dry_run(row.id, principal=SYSTEM).error)
    with pytest.raises(NotDryRun):
        enable_rule(row.id, principal=SYSTEM, reason="it was tried")


def test_a_rule_that_cannot_be_tried_says_why(examine: Examine) -> None:
    backlog()
    row = rule({"violates": {}})
    Rule.objects.filter(id=row.id).update(match={"violates": {"$ref": "http://example.com/"}})
    found = tried(row, examine)
    assert "leads out of the schema" in str(found.error)
    assert LongRun.objects.get(kind="dry_run").state == "failed"
    with pytest.raises(NotDryRun):
        enable_rule(row.id, principal=SYSTEM, reason="it was tried")
